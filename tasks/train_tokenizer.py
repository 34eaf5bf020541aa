"""Learn a tokenizer from a corpus's training split."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import EngineConfig, TokenizerConfig
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord, TokenizerRecord
from rnnlm.tokenizers import tokenizer_training
from tasks.count_words import count_words
from tasks.operations.task_runners import engine_of


@task(task_run_name="train {config.kind} tokenizer on {corpus.name}", cache_policy=NO_CACHE)
def train_tokenizer(
    corpus: CorpusRecord, config: TokenizerConfig, engine: EngineConfig = EngineConfig(), force: bool = False
) -> TokenizerRecord:
    """Words are counted where `engine` says."""
    return tokenizer_training.train_tokenizer(
        find_home(), corpus, config, force=force, open_engine=engine_of(count_words, engine)
    )
