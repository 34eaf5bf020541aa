"""Store a corpus, given by catalogue name, path, glob, URL or hf: name, as UTF-8 text in the home."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord


# No Prefect retries: rnnlm/corpora/http_download.py and `datasets` retry with backoff and resume by themselves.
@task(task_run_name="download-{config.public_source}", cache_policy=NO_CACHE)
def download_corpus(config: CorpusConfig, force: bool = False) -> CorpusRecord:
    return obtain_corpus(find_home(), config, force=force)
