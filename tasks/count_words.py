"""Count the words of one stretch of a corpus."""

from collections.abc import Callable

import pyarrow as pa

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.splits import Stretch
from rnnlm.records import CorpusRecord
from tasks.operations.task_runners import piece_task


@piece_task("count words of {stretch.source_file} from byte {stretch.byte_offset}")
def count_words(
    count: Callable[..., pa.Table], corpus: CorpusRecord, config: TokenizerConfig, stretch: Stretch
) -> pa.Table:
    return count(corpus, config, stretch)
