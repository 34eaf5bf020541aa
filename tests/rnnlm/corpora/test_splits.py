"""A document's own digest decides its split."""

import json
import random
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora import splits
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import byte_ranges, corpus_documents, documents_in
from rnnlm.home import Home

SHARES = CorpusConfig(source="x", valid_share=0.2, test_share=0.2)


def store(home: Home, path: Path, text: str) -> list[tuple[str, str]]:
    path.write_bytes(text.encode())
    corpus = obtain_corpus(home, SHARES.model_copy(update={"source": str(path)}))
    found = list(corpus_documents(corpus))
    assert "".join(document.data.decode() for document in found) == text
    data = text.encode()
    for document in found:  # each says where it lies
        piece = document.data
        assert data[document.byte_offset : document.byte_offset + len(piece)] == piece
    return [(document.split, document.data.decode()) for document in found]


def test_growth_keeps_every_document_in_its_split(home: Home, tmp_path: Path) -> None:
    text = "".join(f"paragraph {index}\n\n" for index in range(200))
    before = store(home, tmp_path / "text.txt", text)
    after = store(home, tmp_path / "text.txt", text + "".join(f"new {index}\n\n" for index in range(50)))
    assert after[: len(before)] == before
    assert {split for split, _ in before} == {"train", "valid", "test"}


@pytest.mark.parametrize("blank_share", [0.0, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("searched_bytes", [20, 10_000])
def test_byte_ranges_are_whole_documents_of_any_text(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank_share: float, searched_bytes: int
) -> None:
    monkeypatch.setattr(splits, "SEARCHED_BYTES", searched_bytes)  # with 20 many are found by reading from the start
    draw = random.Random(f"{blank_share} {searched_bytes}")

    def text() -> str:
        lines = ("" if draw.random() < blank_share else "a" * draw.choice([1, 5, 60, 9000]) for _ in range(300))
        return "".join(f"{line}\n" for line in lines)

    rows = "".join(json.dumps({"text": text()}) + "\n" for _ in range(3))
    (tmp_path / "text.jsonl").write_text(rows)
    corpus = obtain_corpus(home, SHARES.model_copy(update={"source": str(tmp_path / "text.jsonl")}))
    documents = list(corpus_documents(corpus))
    for byte_count in (1, 100, 20_000, 10_000_000):
        found = list(byte_ranges(corpus, byte_count))
        assert len(found) == 1 if byte_count == 10_000_000 else len(found) > 2
        assert all(byte_range.byte_count >= byte_count for byte_range in found[:-1])
        assert [document for byte_range in found for document in documents_in(corpus, byte_range)] == documents
