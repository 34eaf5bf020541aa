"""Store a corpus, given by catalogue name, path, glob, URL or hf: name, as UTF-8 text in the home."""

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import task_run

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import corpus_name, obtain_corpus
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord


def name_download() -> str:
    """The source may be a long path or an address; the corpus's name is short."""
    return f"download {corpus_name(task_run.parameters['config'])}"


# No Prefect retries: rnnlm/corpora/http_download.py and `datasets` retry with backoff and resume by themselves.
@task(task_run_name=name_download, cache_policy=NO_CACHE)
def download_corpus(config: CorpusConfig, force: bool = False) -> CorpusRecord:
    return obtain_corpus(find_home(), config, force=force)
