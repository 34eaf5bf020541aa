"""Download or read a corpus, and train its tokenizer."""

from collections.abc import Callable
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import task_run

from rnnlm.config import CorpusConfig, EngineConfig, TokenizerConfig
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import ByteRange
from rnnlm.storage.home import find_home
from rnnlm.storage.records import CorpusRecord, TokenizerRecord
from rnnlm.tokenizers import tokenizer_training
from tasks.operations.task_runners import engine_of, piece_task


def name_download() -> str:
    """Return the task run's name. It contains the corpus's name instead of its path or URL, which may be long."""
    return f"download {corpus_name(task_run.parameters['config'])}"


# Prefect does not retry this task, because downloads are retried and resumed by rnnlm/corpora/http_download.py and
# `datasets`.
@task(task_run_name=name_download, cache_policy=NO_CACHE)
def download_corpus(config: CorpusConfig, force: bool = False) -> CorpusRecord:
    """Store a corpus as UTF-8 text in the rnnlm home. The source is a catalogue name, path, glob, URL or hf: name."""
    return obtain_corpus(find_home(), config, force=force)


@piece_task("count words of {byte_range.source_file} from byte {byte_range.byte_offset}")
def count_corpus_words(
    count: Callable[..., Path], corpus: CorpusRecord, config: TokenizerConfig, byte_range: ByteRange, folder: Path
) -> Path:
    """Count the words of one byte range of a corpus."""
    return count(corpus, config, byte_range, folder)


@task(task_run_name="train {config.kind} tokenizer on {corpus.name}", cache_policy=NO_CACHE)
def learn_tokenizer(
    corpus: CorpusRecord, config: TokenizerConfig, engine: EngineConfig = EngineConfig(), force: bool = False
) -> TokenizerRecord:
    """Train a tokenizer on a corpus's training split, whose words are counted by the engine that `engine` selects."""
    return tokenizer_training.train_tokenizer(
        find_home(), corpus, config, force=force, open_engine=engine_of(count_corpus_words, engine)
    )
