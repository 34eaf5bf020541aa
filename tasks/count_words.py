"""Count the words of one stretch of a corpus."""

from collections.abc import Callable
from pathlib import Path

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.splits import Stretch
from rnnlm.records import CorpusRecord
from tasks.operations.task_runners import piece_task


@piece_task("count words of {stretch.source_file} from byte {stretch.byte_offset}")
def count_words(
    count: Callable[..., Path], corpus: CorpusRecord, config: TokenizerConfig, stretch: Stretch, folder: Path
) -> Path:
    return count(corpus, config, stretch, folder)
