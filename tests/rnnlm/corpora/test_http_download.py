"""A download succeeds or fails with advice if a server breaks off, stalls, or sends wrong or changed bytes."""

import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora import http_download
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.http_download import fetch
from rnnlm.corpora.http_request import FetchPolicy, refuse_redirect
from rnnlm.errors import CorpusError, FetchError, HomeError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.faulty_server import HALF, QUICK, TEXT, FaultyServer

SHA256 = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "downloads").mkdir()
    return tmp_path / "text"


def get(server: FaultyServer, target: Path, sha256: str | None = None, policy: FetchPolicy = QUICK) -> bytes:
    fetch(server.url, target, target.parent / "downloads", sha256, policy)
    return target.read_bytes()


def left(target: Path) -> list[str]:
    return sorted(path.name for path in (target.parent / "downloads").iterdir())


def interrupted(server: FaultyServer, target: Path) -> None:
    """Download a file from a server that breaks off halfway, so that a later run can resume the download."""
    server.behaviour = "breaks off"
    with pytest.raises(FetchError, match=f"{HALF} bytes|IncompleteRead|broke off"):
        get(server, target, policy=FetchPolicy(attempts=1))
    server.asked.clear()
    server.behaviour = "good"


def test_redirects_have_an_end(server: FaultyServer, target: Path) -> None:
    server.behaviour = "redirect /elsewhere"
    with pytest.raises(CorpusError, match="more than 5 redirects"):
        get(server, target)
    assert len(server.asked) == 6


# A server that stalls sends nothing until the read times out.
@pytest.mark.parametrize("behaviour", ["breaks off once", "stalls once"])
def test_an_interrupted_download_is_resumed_in_the_same_run(server: FaultyServer, target: Path, behaviour: str) -> None:
    server.behaviour = behaviour
    assert get(server, target, SHA256) == TEXT
    assert [asked for _, asked in server.asked] == [None, f"bytes={HALF}-"]


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        (TEXT[:HALF], [f"bytes={HALF}-"]),
        (TEXT, [f"bytes={len(TEXT)}-"]),
        (TEXT + b"more", [f"bytes={len(TEXT) + 4}-", None]),
        (b"x" * HALF, [f"bytes={HALF}-", None]),  # The digest of the whole file shows that the kept bytes are wrong.
    ],
)
def test_kept_bytes_are_resumed_or_replaced_by_a_later_run(
    server: FaultyServer, target: Path, kept: bytes, asked: list[str | None]
) -> None:
    interrupted(server, target)
    (partial,) = (target.parent / "downloads").glob("*.download")
    partial.write_bytes(kept)
    assert get(server, target, SHA256) == TEXT
    assert [begin for _, begin in server.asked] == asked


@pytest.mark.parametrize("behaviour", ["ignores Range", "sends another range"])
def test_a_server_that_does_not_resume_starts_over(server: FaultyServer, target: Path, behaviour: str) -> None:
    interrupted(server, target)
    server.behaviour = behaviour
    assert get(server, target, SHA256) == TEXT


@pytest.mark.parametrize("body", [TEXT.upper(), TEXT.upper() + b"longer\n", TEXT[:HALF].upper()])
def test_versions_of_a_file_are_not_mixed_between_two_runs(server: FaultyServer, target: Path, body: bytes) -> None:
    interrupted(server, target)
    server.behaviour = "ignores If-Range"
    server.body, server.etag = body, '"two"'
    assert get(server, target) == body


def test_without_a_validator_nothing_is_resumed(server: FaultyServer, target: Path) -> None:
    server.etag = None
    interrupted(server, target)
    assert left(target) == []
    assert get(server, target) == TEXT
    assert [asked for _, asked in server.asked] == [None]


@pytest.mark.parametrize(("after", "least"), [("1", 0.4), ("0", 0.0), ("soon", 0.0)])
def test_retry_after_is_kept_up_to_the_longest_wait(
    server: FaultyServer, target: Path, caplog: pytest.LogCaptureFixture, after: str, least: float
) -> None:
    server.behaviour = f"busy {after}"
    assert get(server, target) == TEXT
    waits = [float(seconds) for seconds in re.findall(r"attempt \d of \d begins in ([\d.]+) s", caplog.text)]
    assert waits
    assert all(least <= seconds <= QUICK.maximum_wait_seconds for seconds in waits)


@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [(503, FetchError, 3), (429, FetchError, 3), (404, CorpusError, 1), (403, CorpusError, 1)],
)
def test_only_transient_errors_are_retried_and_not_for_ever(
    server: FaultyServer, target: Path, status: int, error: type[Exception], requests: int
) -> None:
    server.behaviour = f"status {status}"
    with pytest.raises(error, match=f"answered {status}") as caught:
        get(server, target)
    assert type(caught.value) is error
    assert len(str(caught.value).splitlines()) <= 3
    assert len(server.asked) == requests
    assert left(target) == []


def test_a_wrong_digest_is_named_and_not_retried(server: FaultyServer, target: Path) -> None:
    with pytest.raises(CorpusError, match=rf"{SHA256[:12]}, expected 000000000000"):
        get(server, target, "0" * 64)
    assert len(server.asked) == 1
    assert left(target) == []
    assert not target.exists()


@pytest.mark.parametrize("url", ["http://[::1", "http://a..b/text", "http://127.0.0.1:port/text"])
def test_an_invalid_address_is_not_worth_another_try(target: Path, url: str) -> None:
    with pytest.raises(CorpusError):
        fetch(url, target, target.parent / "downloads", policy=QUICK)


def test_a_url_is_downloaded_once(server: FaultyServer, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_download, "POLICY", QUICK)
    # A text with a configured digest cannot change, so the server is not asked again.
    config = CorpusConfig(source=server.url, sha256=SHA256)
    first = obtain_corpus(home, config)
    assert (first.digest, first.skipped) == (SHA256, False)
    assert obtain_corpus(home, config).skipped
    assert len(server.asked) == 1
    assert not obtain_corpus(home, config, force=True).skipped
    assert not obtain_corpus(home, config.model_copy(update={"lowercase": True, "digits": "0"})).skipped
    assert len(server.asked) == 1


def test_the_downloaded_file_is_used_while_the_server_is_away(
    server: FaultyServer, home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_download, "POLICY", FetchPolicy(attempts=1))
    obtain_corpus(home, CorpusConfig(source=server.url))
    server.behaviour = "status 503"
    assert obtain_corpus(home, CorpusConfig(source=server.url, digits="0")).corpus_bytes
    assert "an earlier run downloaded is used" in caplog.text


def test_a_kept_file_that_was_changed_is_downloaded_again(server: FaultyServer, target: Path) -> None:
    assert get(server, target) == TEXT
    target.unlink()
    (kept,) = (target.parent / "downloads").glob("*.download")
    kept.write_bytes(TEXT.upper())
    assert get(server, target) == TEXT
    assert server.conditions == [None, None]


def test_simultaneous_runs_download_a_url_once(server: FaultyServer, home: Home) -> None:
    settings: tuple[dict[str, object], ...] = ({}, {}, {"lowercase": True})
    with ThreadPoolExecutor(3) as pool:
        configs = [CorpusConfig.model_validate({"source": server.url} | changed) for changed in settings]
        corpora = list(pool.map(lambda config: obtain_corpus(home, config), configs))
    # The text has no capitals, so lower case does not change it.
    assert len({corpus.digest for corpus in corpora}) == 1
    assert len(server.asked) == 2  # Two of the three runs have the same settings, so they need only one request.
    # Both requests are for the same file, so the second one only asks whether it has changed.
    assert sorted(server.conditions, key=str) == ['"one"', None]


def limited(server: FaultyServer, home: Home, **limits: object) -> CorpusConfig:
    return CorpusConfig.model_validate({"source": server.url} | limits)


@pytest.mark.parametrize("behaviour", ["good", "no length"])
def test_a_download_of_more_than_the_maximum_is_refused(server: FaultyServer, home: Home, behaviour: str) -> None:
    server.behaviour = behaviour
    with pytest.raises(CorpusError, match=r"larger than 1,000 bytes;\nraise corpus\.maximum_download_bytes"):
        obtain_corpus(home, limited(server, home, maximum_download_bytes=1_000))
    assert [path for path in home.corpora.rglob("*") if path.is_file()] == []


def test_a_download_larger_than_the_disk_is_refused_at_once(
    server: FaultyServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = len(TEXT) - 1

    monkeypatch.setattr(http_download.shutil, "disk_usage", lambda path: Full)
    with pytest.raises(HomeError, match=f"has room for {len(TEXT) - 1:,};\nfree some space"):
        get(server, target)


@pytest.mark.parametrize(
    ("url", "target", "refusal"),
    [
        ("https://a/x", "http://a/x", "from https to http://a/x"),
        ("https://a/x", "https://b/y", None),
        ("http://a/x", "https://a/x", None),
        ("http://a/x", "ftp://a/x", "only http and https"),
        ("http://a/x", "file:///etc/hostname", "only http and https"),
        ("http://192.0.2.1/a", "http://192.0.2.2/b", None),
        ("http://127.0.0.1/a", "http://localhost:8080/b", None),
        *(
            ("http://192.0.2.1/a", f"http://{here}:8080/b", "on this machine")
            for here in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433")
        ),
    ],
)
def test_unsafe_redirects_are_refused(url: str, target: str, refusal: str | None) -> None:
    if refusal is None:
        refuse_redirect(url, url, target)
    else:
        with pytest.raises(CorpusError, match=refusal):
            refuse_redirect(url, url, target)


@pytest.mark.parametrize(
    ("location", "asked"),
    [
        (b"/L\xc3\xb6schen%20a", "/L%C3%B6schen%20a"),  # A server may send unencoded UTF-8.
        (b"/L\xf6schen%20a", "/L%F6schen%20a"),  # A server may send unencoded Latin-1.
        (b"/a%2Fb?c=d&e=%FF", "/a%2Fb?c=d&e=%FF"),  # An address that the server has already encoded is not changed.
        (b"other/\xe6\x97\xa5", "/other/%E6%97%A5"),
    ],
)
def test_a_redirect_asks_for_the_bytes_that_were_sent(
    server: FaultyServer, target: Path, location: bytes, asked: str
) -> None:
    server.behaviour = f"redirect {location.decode('latin-1')}"
    with pytest.raises(CorpusError, match="more than 5 redirects"):
        get(server, target)
    assert [path for path, _ in server.asked[:2]] == ["/text", asked]


def test_a_refused_redirect_is_not_followed(server: FaultyServer, target: Path) -> None:
    server.behaviour = "redirect file:///etc/hostname"
    with pytest.raises(CorpusError, match="only http and https"):
        get(server, target)
    assert len(server.asked) == 1
    assert left(target) == []


def test_an_unconfirmed_rest_is_not_appended(server: FaultyServer, target: Path) -> None:
    interrupted(server, target)
    server.body, server.etag, server.behaviour = TEXT.upper(), '"two"', "does not confirm"
    assert get(server, target) == TEXT.upper()
    assert [begin for _, begin in server.asked] == [f"bytes={HALF}-", None]


def test_304_without_a_condition_is_an_error(server: FaultyServer, target: Path) -> None:
    server.behaviour = "status 304"
    with pytest.raises(CorpusError, match="304"):
        get(server, target)


ANSWER = (
    b"HTTP/1.1 100 Continue\r\n\r\n" * 3
    + b'HTTP/1.1 200 OK\r\nETag: "one"\r\nContent-Length: 40\r\n\r\n'
    + b"the cat sees the dog and likes the bird\n"
)


@contextmanager
def raw_server(pause_seconds: float, upto: int, answer: bytes = ANSWER, endless: bytes = b"") -> Iterator[str]:
    """Yield the URL of a server that sends an answer slowly.

    It sends the first `upto` bytes at once, and then one byte per pause. With a pause of 0 it sends nothing more.
    """
    done = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(answer[:upto])
                rest = iter(answer[upto:])
                while not done.wait(pause_seconds or 0.05):
                    if endless:
                        connection.sendall(endless)
                    elif pause_seconds and (byte := next(rest, None)) is not None:
                        connection.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/text"
        finally:
            done.set()


@pytest.mark.long
@pytest.mark.parametrize("upto", [0, 20, 60, 100, 150])
@pytest.mark.parametrize("pause_seconds", [0, 0.1])
def test_the_time_limit_holds_wherever_an_answer_stalls(target: Path, upto: int, pause_seconds: float) -> None:
    policy = FetchPolicy(attempts=3, read_seconds=60, maximum_seconds=0.4, backoff_seconds=0.01)
    with raw_server(pause_seconds, upto) as url, pytest.raises(FetchError, match="maximum_download_seconds"):
        fetch(url, target, target.parent / "downloads", policy=policy)
    assert not target.exists()


@pytest.mark.parametrize("endless", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X-Header: 1\r\n"])
def test_the_time_limit_holds_for_endless_answers(target: Path, endless: bytes) -> None:
    policy = FetchPolicy(attempts=3, read_seconds=60, maximum_seconds=0.4)
    with raw_server(0, 0 if endless.startswith(b"HTTP") else 95, endless=endless) as url, pytest.raises(FetchError):
        fetch(url, target, target.parent / "downloads", policy=policy)
