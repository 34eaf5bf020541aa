import pytest

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora import http_download
from rnnlm.corpora.http_request import FetchPolicy
from rnnlm.errors import FetchError
from rnnlm.home import Home
from tasks.download_corpus import download_corpus


def test_the_corpus_lies_in_the_home(home: Home, toy_config: PipelineConfig) -> None:
    corpus = download_corpus.fn(toy_config.corpus)
    assert corpus.folder.parent == home.corpora
    assert set(corpus.files) == {"train", "valid", "test"}
    assert download_corpus.fn(toy_config.corpus).skipped
    assert not download_corpus.fn(toy_config.corpus, force=True).skipped


def test_a_failed_download_is_told_apart(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_download, "POLICY", FetchPolicy(attempts=1))
    with pytest.raises(FetchError):
        download_corpus.fn(CorpusConfig(source="http://127.0.0.1:9/text"))
