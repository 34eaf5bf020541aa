import pytest

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.errors import CorpusError, FetchError
from rnnlm.home import Home
from tasks.download_corpus import download_corpus, download_failed


def test_the_corpus_lies_in_the_home(home: Home, toy_config: PipelineConfig) -> None:
    corpus = download_corpus.fn(toy_config.corpus)
    assert corpus.folder.parent == home.corpora
    assert set(corpus.files) == {"train", "valid", "test"}
    assert download_corpus.fn(toy_config.corpus).skipped
    assert not download_corpus.fn(toy_config.corpus, force=True).skipped


def test_only_a_failed_download_is_tried_again(home: Home) -> None:
    from prefect.states import Failed

    assert download_failed(None, None, Failed(data=FetchError("away")))
    assert not download_failed(None, None, Failed(data=CorpusError("missing")))
    with pytest.raises(FetchError):
        download_corpus.fn(CorpusConfig(source="http://127.0.0.1:9/text"))
