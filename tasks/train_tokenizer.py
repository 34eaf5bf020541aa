"""Learn a tokenizer from a corpus's training split."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import TokenizerConfig
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord, TokenizerRecord
from rnnlm.tokenizers import tokenizer_training


@task(task_run_name="train {config.kind} tokenizer on {corpus.name}", cache_policy=NO_CACHE)
def train_tokenizer(corpus: CorpusRecord, config: TokenizerConfig, force: bool = False) -> TokenizerRecord:
    return tokenizer_training.train_tokenizer(find_home(), corpus, config, force=force)
