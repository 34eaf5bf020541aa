"""The digest of a document determines its split. Cleaning a document does not change its fingerprint."""

import json
import random
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora import splits
from rnnlm.corpora.cleaning import clean
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import byte_ranges, corpus_documents, documents_in, text_fingerprint
from rnnlm.storage.home import Home

TEXT = "The Caf\u00e9's 12 ﬁnest\n\n   ÄRZTE, \u0130stanbul: 3.5 \u4f60\u597d!\n"
SHARES = CorpusConfig(source="x", valid_share=0.2, test_share=0.2)


def store(home: Home, path: Path, text: str) -> list[tuple[str, str]]:
    path.write_bytes(text.encode())
    corpus = obtain_corpus(home, SHARES.model_copy(update={"source": str(path)}))
    found = list(corpus_documents(corpus))
    assert "".join(document.data.decode() for document in found) == text
    data = text.encode()
    for document in found:  # The offset of each document must be correct.
        piece = document.data
        assert data[document.byte_offset : document.byte_offset + len(piece)] == piece
    return [(document.split, document.data.decode()) for document in found]


def test_growth_keeps_every_document_in_its_split(home: Home, tmp_path: Path) -> None:
    text = "".join(f"paragraph {index}\n\n" for index in range(200))
    before = store(home, tmp_path / "text.txt", text)
    after = store(home, tmp_path / "text.txt", text + "".join(f"new {index}\n\n" for index in range(50)))
    assert after[: len(before)] == before
    assert {split for split, _ in before} == {"train", "valid", "test"}


LINES = [f"record {number} holds {number * number}\n" for number in range(3_000)]


@pytest.mark.parametrize(
    ("inserted", "where"),
    [(1, 0), (300, 0), (1, 1_500), (50, 2_999)],
    ids=["a line at the beginning", "many at the beginning", "a line inside", "some near the end"],
)
def test_lines_inserted_into_text_without_paragraphs_move_no_other_line(
    home: Home, tmp_path: Path, inserted: int, where: int
) -> None:
    before = {
        line: split for split, text in store(home, tmp_path / "a.txt", "".join(LINES)) for line in text.split("\n")
    }
    new = [f"new {number}\n" for number in range(inserted)]
    grown = store(home, tmp_path / "a.txt", "".join([*LINES[:where], *new, *LINES[where:]]))
    after = {line: split for split, text in grown for line in text.split("\n")}
    moved = [line for line in before if line and after[line] != before[line]]
    # A line changes its split only if the insertion changes where its block begins or ends.
    assert len(moved) <= 60
    assert len(set(before.values())) == 3


def test_blocks_end_at_lines_of_their_own_choice_and_are_not_long() -> None:
    blocks = list(splits.paragraphs(line.encode() for line in LINES))
    assert b"".join(blocks) == "".join(LINES).encode()
    counts = [block.count(b"\n") for block in blocks]
    assert 6 < sum(counts) / len(counts) < 10
    assert max(counts) <= splits.DOCUMENT_LINES
    same = list(splits.paragraphs([b"the same\n"] * 175))
    assert [block.count(b"\n") for block in same] in ([50, 50, 50, 25], [1] * 175)
    wide = list(splits.paragraphs([b"x" * 3_000 + b"%d\n" % number for number in range(100)]))
    assert max(map(len, wide)) <= splits.DOCUMENT_BYTES


def test_a_paragraph_of_up_to_fifty_lines_is_one_document() -> None:
    text = [*LINES[:50], "\n", *LINES[:51], " \n", "\n", *LINES[:3]]
    first, *middle, last = (block.decode() for block in splits.paragraphs(line.encode() for line in text))
    assert first == "".join([*LINES[:50], "\n"])
    assert last == "".join(LINES[:3])
    assert len(middle) > 2
    assert "".join(middle) == "".join([*LINES[:51], " \n", "\n"])


@pytest.mark.parametrize(("before", "after"), [(30, 70), (70, 130), (90, 101)])
def test_a_growing_number_of_files_leaves_text_that_is_unseen(
    home: Home, tmp_path: Path, before: int, after: int
) -> None:
    """Some held-out text is new to both an earlier and a later model, however many files are added in between."""
    folder = tmp_path / "folder"
    folder.mkdir()

    def splits_of(count: int) -> dict[str, set[str]]:
        for number in range(count):
            text = "".join(f"file {number} line {line}\n\n" for line in range(20))
            (folder / f"{number:04}.txt").write_text(text)
        found: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
        for document in corpus_documents(obtain_corpus(home, SHARES.model_copy(update={"source": str(folder)}))):
            found[document.split].add(document.sha256)
        return found

    earlier, later = splits_of(before), splits_of(after)
    unseen = later["valid"] - earlier["train"]
    assert len(unseen) > 0.3 * len(later["valid"])


@pytest.mark.parametrize("blank_share", [0.0, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("searched_bytes", [20, 10_000])
def test_byte_ranges_are_whole_documents_of_any_text(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank_share: float, searched_bytes: int
) -> None:
    # If only 20 bytes are searched, many documents are found by reading the text from the start.
    monkeypatch.setattr(splits, "SEARCHED_BYTES", searched_bytes)
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


@pytest.mark.parametrize(
    "cleaning",
    [{"lowercase": True}, {"digits": "###"}, {"normalization": "NFKD"}, {"normalization": "NFC", "lowercase": True}],
)
def test_cleaning_leaves_the_fingerprint(cleaning: dict[str, object]) -> None:
    config = CorpusConfig.model_validate(cleaning)
    assert clean(TEXT, config) != TEXT
    assert text_fingerprint(clean(TEXT, config).encode()) == text_fingerprint(TEXT.encode())
