"""A text without line ends is broken into lines, which form documents and splits."""

import logging
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.line_breaking import LINE_CHARACTERS, LineBreaker
from rnnlm.corpora.splits import corpus_documents
from rnnlm.storage.home import Home

LONG = " ".join(f"word{number}" for number in range(60_000))  # A text of 600 kB in one line.


def broken(text: str, size: int) -> str:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(LineBreaker()(iter(pieces)))


@pytest.mark.parametrize("text", [LONG, "short\n\nlines\n", "x" * 30_000, "a b\n" + LONG[:20_000] + "\n" + "y" * 9_000])
def test_the_result_does_not_depend_on_the_pieces(text: str) -> None:
    once = broken(text, len(text))
    assert max(map(len, once.split("\n"))) <= LINE_CHARACTERS
    for size in (1_000, 8_192, 8_193, 50_000):
        assert broken(text, size) == once
    if " " in text or len(text) < LINE_CHARACTERS:
        assert once.replace("\n", " ").startswith(text[:20_000].replace("\n", " "))


def test_a_text_of_one_line_is_cut_into_documents_of_all_splits(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text8").write_text(LONG)
    config = CorpusConfig(source=str(tmp_path / "text8"), valid_share=0.2, test_share=0.2)
    with caplog.at_level(logging.WARNING):
        corpus = obtain_corpus(home, config)
    found = list(corpus_documents(corpus))
    assert len(found) > 60
    assert max(len(document.data) for document in found) <= LINE_CHARACTERS + 1
    assert {document.split for document in found} == {"train", "valid", "test"}
    assert b"".join(document.data for document in found).decode().split() == LONG.split()
    assert "broken" in caplog.text
