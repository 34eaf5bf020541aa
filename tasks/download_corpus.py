"""A catalogue name, path or URL → the corpus as UTF-8 text in the home."""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.tasks import exponential_backoff

from rnnlm.config import CorpusConfig
from rnnlm.corpora.sources import obtain_corpus
from rnnlm.errors import FetchError
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord


def download_failed(task: Any, run: Any, state: Any) -> bool:
    """Only a failed download is worth another try: a missing file stays missing."""
    return isinstance(state.result(raise_on_failure=False), FetchError)


@task(
    task_run_name="download-{config.source}",
    cache_policy=NO_CACHE,
    retries=3,
    retry_delay_seconds=exponential_backoff(backoff_factor=2),
    retry_jitter_factor=0.5,
    retry_condition_fn=download_failed,
)
def download_corpus(config: CorpusConfig, force: bool = False) -> CorpusRecord:
    return obtain_corpus(find_home(), config, force=force)
