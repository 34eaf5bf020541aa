"""redacted() hides the secrets in addresses of any form."""

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.config.presets import build_config
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import ConfigError, CorpusError, TrackingError
from rnnlm.storage.home import Home
from rnnlm.storage.redaction import redacted
from rnnlm.tracking.mlflow_store import reaching_mlflow


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://host/path.txt", "https://host/path.txt"),
        ("https://user:secret@host/a", "https://***@host/a"),
        ("https://secret@host:80/a", "https://***@host:80/a"),
        ("https://user:se@cret@host", "https://***@host"),
        ("https://host/a?b=secret&c=secret#secret", "https://host/a?b=***&c=***#***"),
        ("https://host/a?secret", "https://host/a?***"),
        ("postgresql+psycopg2://user:secret@db/mlflow failed", "postgresql+psycopg2://***@db/mlflow failed"),
        ("sqlite:////home/user/mlflow.db", "sqlite:////home/user/mlflow.db"),
        ("data/**/*.txt?", "data/**/*.txt?"),
        ("hf:owner/name:config", "hf:owner/name:config"),
        ("see https://a:secret@b/c, or 'http://d/e?f=secret'", "see https://***@b/c, or 'http://d/e?f=***'"),
    ],
)
def test_users_passwords_and_values_are_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


def test_a_configuration_is_written_without_secrets_and_keeps_them_in_memory() -> None:
    config = build_config(corpus="https://user:secret@127.0.0.1/a.txt?sig=secret")
    assert "secret" not in config.model_dump_json() + str(config.model_dump()) + config.corpus.public_source
    assert config.corpus.source.count("secret") == 2


@pytest.mark.parametrize(
    "source", ["https://u:secret@", "http://u:secret@127.0.0.1:9/a?b=secret", "ftp://u:secret@host/a"]
)
def test_an_error_about_an_address_holds_no_secret(
    home: Home, source: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rnnlm.corpora import http_download
    from tests.rnnlm.corpora.faulty_server import QUICK

    monkeypatch.setattr(http_download, "POLICY", QUICK)
    with pytest.raises(CorpusError) as caught:
        obtain_corpus(home, CorpusConfig(source=source))
    assert "secret" not in str(caught.value) + caplog.text
    with pytest.raises(ConfigError) as refused:
        build_config(overrides=[f"corpus.sha256={source}"])
    assert "secret" not in str(refused.value)


def test_a_corpus_is_not_named_after_a_password() -> None:
    assert corpus_name(CorpusConfig(source="https://user:secret@host.org")) == "host"


def test_a_tracking_uri_is_shown_without_its_password(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"http://\*\*\*@127") as caught, reaching_mlflow(home) as client:
        client.search_experiments()
    assert "secret" not in str(caught.value)
