"""Corpora of the catalogue are found by name and read as the catalogue describes them."""

import dataclasses

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora import catalogue, http_download
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.corpora.download import check_source, obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.faulty_server import QUICK, FaultyServer

BOOK = "\ufeffTitle\r\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\r\nWell, Prince\r\n*** a star ***\r\n"
END = "*** END OF THE PROJECT GUTENBERG EBOOK X ***\r\nlicence\r\n"


def moved(monkeypatch: pytest.MonkeyPatch, name: str, server: FaultyServer, body: bytes) -> CorpusConfig:
    """Return the settings of a corpus in the catalogue that the loopback server serves with the content `body`."""
    monkeypatch.setattr(http_download, "POLICY", QUICK)
    monkeypatch.setitem(catalogue.CATALOGUE, name, dataclasses.replace(catalogue.CATALOGUE[name], location=server.url))
    server.body = body
    return CorpusConfig(source=name)


def text_of(home: Home, config: CorpusConfig, role: str = "text") -> str:
    return (obtain_corpus(home, config).folder / f"{role}.txt").read_bytes().decode()


def test_every_entry_is_a_source_with_all_its_facts() -> None:
    downloaded = {"news", "brown", "wikitext-2", "wikitext-103", "tinyshakespeare", "war-and-peace"}
    assert {"python-docs", "counting", "zen"} | downloaded == set(catalogue.CATALOGUE)
    for name, entry in catalogue.CATALOGUE.items():
        check_source(CorpusConfig(source=name))
        assert corpus_name(CorpusConfig(source=name)) == entry.name == name
        assert all((entry.location, entry.licence, entry.format, entry.splits, entry.size))
        assert bool(entry.write) == bool(entry.versions) == (entry.location == catalogue.INSTALLATION)


def test_a_gutenberg_book_loses_its_frame(home: Home, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = moved(monkeypatch, "war-and-peace", server, (BOOK + END).encode())
    assert text_of(home, config) == "Well, Prince\n*** a star ***\n"


@pytest.mark.parametrize(("body", "missing"), [(BOOK, "END"), ("a text\n", "START")])
def test_a_gutenberg_book_without_its_frame_is_refused(
    home: Home, server: FaultyServer, monkeypatch: pytest.MonkeyPatch, body: str, missing: str
) -> None:
    with pytest.raises(CorpusError, match=f"{missing} OF"):
        obtain_corpus(home, moved(monkeypatch, "war-and-peace", server, body.encode()))
    # Only the download was stored, and no corpus.
    assert {path.parent.name for path in home.corpora.rglob("*") if path.is_file()} == {"downloads"}
