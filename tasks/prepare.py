"""Tasks of prepare_flow: a corpus becomes a dataset file with its tokenizer."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.reports.dataset_page import description_report
from rnnlm.sequences import dataset_report, dataset_writer
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.tokenizers import tokenizer_training


# No Prefect retries: rnnlm/corpora/http_download.py and `datasets` retry with backoff and resume by themselves.
@task(task_run_name="download-{config.public_source}", cache_policy=NO_CACHE)
def download_corpus(config: CorpusConfig, force: bool = False) -> CorpusRecord:
    """Store a corpus, given by catalogue name, path, glob, URL or hf: name, as UTF-8 text in the home."""
    return obtain_corpus(find_home(), config, force=force)


@task(task_run_name="train-{config.kind}-tokenizer-on-{corpus.name}", cache_policy=NO_CACHE)
def train_tokenizer(corpus: CorpusRecord, config: TokenizerConfig, force: bool = False) -> TokenizerRecord:
    """Learn a tokenizer from a corpus's training split."""
    return tokenizer_training.train_tokenizer(find_home(), corpus, config, force=force)


@task(task_run_name="store-{config.mode}-sequences-of-{corpus.name}", cache_policy=NO_CACHE)
def store_sequences(
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    force: bool = False,
) -> DatasetRecord:
    """Tokenize a corpus into one DuckDB file of shifted sequences."""
    return dataset_writer.store_sequences(find_home(), corpus, tokenizer, config, force=force)


@task(task_run_name="check-leakage-of-{dataset.dataset_id}", cache_policy=NO_CACHE)
def check_leakage(dataset: DatasetRecord, config: SequencesConfig) -> float:
    """The largest share of a held-out split found in training text; DatasetError if it exceeds the maximum."""
    return dataset_report.check_leakage(find_home(), dataset, config.maximum_leakage)


@task(task_run_name="describe-{dataset.dataset_id}", cache_policy=NO_CACHE)
def describe_sequences(dataset: DatasetRecord, force: bool = False) -> str:
    """Describe a dataset in a markdown report with plots."""
    description, pictures = describe_dataset(find_home(), dataset, force=force)
    return description_report(description, pictures)
