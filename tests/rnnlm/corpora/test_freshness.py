"""Each run asks a server or the hub whether the text has changed.

If the server is unavailable, the stored copy is used.
"""

import itertools
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from rnnlm.config import CorpusConfig
from rnnlm.corpora import http_download, hub
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.source_names import HubName
from rnnlm.errors import CorpusError
from rnnlm.reports.pipeline_page import corpus_report
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord
from rnnlm.storage.shared_storage import VARIABLE
from tests.rnnlm.corpora.faulty_server import QUICK, TEXT, FaultyServer

TODAY = datetime.now(UTC).date().isoformat()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_download, "POLICY", QUICK)


def obtain(home: Home, source: str, **settings: object) -> CorpusRecord:
    return obtain_corpus(home, CorpusConfig.model_validate({"source": source} | settings))


def age(home: Home, **ago: int) -> None:
    """Change the times in the note, as if the text had been downloaded and checked this long ago."""
    (note,) = (home.corpora / "known").iterdir()
    then = (datetime.now(UTC) - timedelta(**ago)).isoformat()
    note.write_text(json.dumps(json.loads(note.read_text()) | {"obtained": then, "checked": then}))


@pytest.mark.parametrize(
    ("etag", "modified", "condition"),
    [('"one"', None, '"one"'), (None, "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT")],
)
def test_new_text_at_the_same_url_is_seen_by_the_next_run(
    server: FaultyServer, home: Home, etag: str | None, modified: str | None, condition: str
) -> None:
    server.etag, server.modified = etag, modified
    first = obtain(home, server.url)
    assert first.freshness == f"read on {TODAY}"
    again = obtain(home, server.url)
    assert (again.skipped, again.digest) == (True, first.digest)
    assert server.conditions == [None, condition]
    assert f"unchanged since {TODAY}" in corpus_report(again)
    server.body = TEXT + b"a new line .\n"
    server.etag, server.modified = etag and '"two"', modified and "Thu, 22 Oct 2015 07:28:00 GMT"
    grown = obtain(home, server.url)
    assert not grown.skipped
    assert (grown.folder / "text.txt").read_bytes() == server.body
    assert obtain(home, server.url).digest == grown.digest


@pytest.mark.parametrize("failure", ["away", "status 503", "status 404"])
def test_a_server_that_does_not_answer_leaves_the_known_copy_in_use(
    server: FaultyServer, home: Home, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    first = obtain(home, server.url)
    if failure == "away":
        server.shutdown()
        server.server_close()
    else:
        server.behaviour = failure
    with caplog.at_level(logging.WARNING):
        again = obtain(home, server.url)
    assert (again.skipped, again.digest) == (True, first.digest)
    assert again.freshness == f"its server was unavailable; the stored copy of {TODAY} is used"
    assert f"The stored copy of {TODAY} is used." in caplog.text
    if failure != "away":
        server.behaviour = "good"
        assert obtain(home, server.url).freshness.startswith("unchanged since")


def test_refresh_limits_how_often_the_server_is_asked(server: FaultyServer, home: Home) -> None:
    obtain(home, server.url, refresh="never")
    age(home, days=400)
    obtain(home, server.url, refresh="never")
    assert len(server.asked) == 1
    age(home, hours=11)
    obtain(home, server.url, refresh="12h")
    assert len(server.asked) == 1
    age(home, hours=13)
    obtain(home, server.url, refresh="12h")
    assert len(server.asked) == 2
    obtain(home, server.url, refresh="12h")
    assert len(server.asked) == 2
    with pytest.raises(ValidationError):
        CorpusConfig(refresh="sometimes")


@pytest.mark.parametrize("refresh", ["always", "12h", "30d"])
def test_the_server_is_asked_again_after_a_clock_was_ahead(server: FaultyServer, home: Home, refresh: str) -> None:
    first = obtain(home, server.url, refresh=refresh)
    age(home, days=-4_000)
    server.body, server.etag = TEXT + b"a new line .\n", '"two"'
    assert obtain(home, server.url, refresh=refresh).digest != first.digest
    assert obtain(home, server.url, refresh="12h").skipped
    assert len(server.asked) == 2


def test_a_text_that_another_machine_has_downloaded_is_taken_from_the_storage(
    server: FaultyServer, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, (tmp_path / "storage").as_uri())
    first, other = obtain(home, server.url), Home(tmp_path / "other")
    again = obtain(other, server.url)
    # The second machine sent a conditional request and did not download the text.
    assert server.conditions == [None, '"one"']
    assert (again.skipped, again.digest, again.folder.parent) == (True, first.digest, other.corpora)
    assert (again.folder / "text.txt").read_bytes() == TEXT
    server.body, server.etag = TEXT.upper(), '"two"'
    grown = obtain(other, server.url)
    assert obtain(Home(tmp_path / "third"), server.url).digest == grown.digest != first.digest
    assert server.conditions[-1] == '"two"'


def fake_hub(monkeypatch: pytest.MonkeyPatch, revisions: Iterator[str]) -> list[str | None]:
    """Replace the client of the hub, and return a list that receives the downloaded revisions.

    To use a server on this machine, the real client would need a separate process; see test_hub.py.
    """
    loaded: list[str | None] = []

    def load(name: HubName, revision: str | None) -> dict[str, object]:
        from datasets import Dataset

        loaded.append(revision)
        sizes = {"train": 2_500, "test": 1}
        texts = {split: [f"{split} Row {row} of {revision}" for row in range(size)] for split, size in sizes.items()}
        return {split: Dataset.from_dict({"text": rows}).to_iterable_dataset() for split, rows in texts.items()}

    monkeypatch.setattr(hub, "load_splits", load)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: SimpleNamespace(sha=next(revisions)))
    return loaded


def test_each_run_asks_for_the_revision_of_a_data_set(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = fake_hub(monkeypatch, iter(["a" * 40, "a" * 40, "b" * 40]))
    first, again, changed = (obtain(home, "hf:owner/name") for _ in range(3))
    assert first.digest == again.digest != changed.digest
    assert again.skipped
    assert loaded == ["a" * 40, "b" * 40]

    def away(*_: object, **__: object) -> object:
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", away)
    assert obtain(home, "hf:owner/name").freshness.startswith("its server was unavailable")


def test_other_settings_do_not_download_a_data_set_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = fake_hub(monkeypatch, itertools.repeat("a" * 40))
    first, lower = obtain(home, "hf:owner/name"), obtain(home, "hf:owner/name", lowercase=True)
    assert len(loaded) == 1
    assert set(lower.files) == set(first.files) == {"train", "test"}
    for name in first.files.values():
        assert (lower.folder / name).read_text() == (first.folder / name).read_text().lower()
    assert (first.folder / "train.txt").read_text().splitlines()[2_499] == f"train Row 2499 of {'a' * 40}"
    (kept,) = (home.corpora / "downloads").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(CorpusError, match=r"is damaged .*; delete it and run again"):
        obtain(home, "hf:owner/name", digits="#")
    kept.unlink()
    assert obtain(home, "hf:owner/name", digits="#").digest != first.digest
    assert len(loaded) == 2
