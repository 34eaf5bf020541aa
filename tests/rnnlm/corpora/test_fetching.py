"""Downloads from a loopback server that is good, and one that is not."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.fetching import fetch
from rnnlm.corpora.sources import obtain_corpus
from rnnlm.errors import CorpusError, FetchError
from rnnlm.home import Home

TEXT = b"the cat sees the dog .\n" * 200
SHA256 = hashlib.sha256(TEXT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    requests: list[str] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.path == "/good.txt":
            self.answer(200, TEXT)
        elif self.path == "/short.txt":
            self.send_response(200)
            self.send_header("Content-Length", str(len(TEXT)))
            self.end_headers()
            self.wfile.write(TEXT[:100])
        elif self.path == "/away":
            self.answer(302, b"", Location="file:///etc/hostname")
        elif self.path == "/moved":
            self.answer(302, b"", Location="/good.txt")
        elif self.path == "/round":
            self.answer(302, b"", Location="/round")
        else:
            self.answer(int(self.path[1:]), b"sorry")

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    Handler.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_a_download_arrives_whole(server: str, tmp_path: Path) -> None:
    fetch(f"{server}/good.txt", tmp_path / "text", SHA256)
    assert (tmp_path / "text").read_bytes() == TEXT
    fetch(f"{server}/moved", tmp_path / "moved", SHA256)
    assert (tmp_path / "moved").read_bytes() == TEXT


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/503", FetchError, "503"),
        ("/429", FetchError, "429"),
        ("/short.txt", FetchError, "short.txt"),
        ("/404", CorpusError, "404"),
        ("/away", CorpusError, "file:///etc/hostname"),
        ("/round", CorpusError, "redirects"),
    ],
)
def test_a_failed_download_leaves_nothing(
    server: str, tmp_path: Path, path: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        fetch(f"{server}{path}", tmp_path / "text")
    assert type(caught.value) is error  # only FetchError is tried again
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_digest_says_what_came(server: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"{SHA256[:12]}, expected 000000000000"):
        fetch(f"{server}/good.txt", tmp_path / "text", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_nobody_listening_is_worth_another_try(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="check the address"):
        fetch("http://127.0.0.1:9/text", tmp_path / "text")


def test_a_url_is_downloaded_once(server: str, home: Home) -> None:
    config = CorpusConfig(source=f"{server}/good.txt", sha256=SHA256)
    first = obtain_corpus(home, config)
    assert (first.digest, first.skipped) == (SHA256, False)
    assert obtain_corpus(home, config).skipped
    assert Handler.requests == ["/good.txt"]
    assert not obtain_corpus(home, config, force=True).skipped
    assert len(Handler.requests) == 2
