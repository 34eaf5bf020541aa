"""The file of seen text lists the digests of training documents and lines.

If there are too many, it lists only the digests below a bound.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.corpora.line_digests import line_digest
from rnnlm.corpora.splits import text_fingerprint
from rnnlm.evaluation.paired import seen_text
from rnnlm.evaluation.paired.holdout_documents import holdout_documents
from rnnlm.evaluation.paired.seen_text import bound_of, lists_lines, seen_lines, write_seen_text
from tests.rnnlm.evaluation.paired.conftest import TRAIN, VALID, StoredDocuments


def digests_of(path: Path, *, lines: bool | None = None) -> list[str]:
    rows = pq.read_table(path).to_pylist()
    return [row["sha256"] for row in rows if lines is None or row["is_line"] == lines]


def test_the_documents_and_the_lines_of_the_training_split_are_listed(
    stored_documents: StoredDocuments, tmp_path: Path
) -> None:
    path = tmp_path / "seen.parquet"
    assert write_seen_text(stored_documents.dataset, path) == 2
    assert digests_of(path, lines=False) == sorted({text_fingerprint(text.encode())[:16] for text in TRAIN})
    lines = sorted({line_digest(line.encode()) for text in TRAIN for line in text.split("\n") if line})
    assert seen_lines([path]).tolist() == lines
    assert digests_of(path, lines=True) == [f"{line:016x}" for line in lines]
    assert lists_lines(path)


@pytest.mark.parametrize("kept", [1, 3, 6])
def test_of_much_text_what_is_below_a_bound_is_known_and_compared(
    stored_documents: StoredDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    whole, part = tmp_path / "whole.parquet", tmp_path / "part.parquet"
    number = write_seen_text(stored_documents.dataset, whole)
    monkeypatch.setattr(seen_text, "KEPT_FINGERPRINTS", kept)
    estimate = write_seen_text(stored_documents.dataset, part)
    bound = bound_of(part)
    share = int(bound, 16) / 2**64
    documents, lines = len(TRAIN) + len(VALID) + 1, 2  # One document from the test split is added.
    assert share == pytest.approx(kept / (documents + lines))
    assert digests_of(part) == [digest for digest in digests_of(whole) if digest < bound]
    assert estimate == round(len(digests_of(part, lines=False)) / share)
    assert number == len(digests_of(whole, lines=False))
    compared = [
        document
        for document in holdout_documents(stored_documents.dataset, [whole])
        if fingerprint(stored_documents, document.byte_offset, document.byte_count) < bound
    ]
    assert holdout_documents(stored_documents.dataset, [part, whole]) == compared
    assert holdout_documents(stored_documents.dataset, [whole, part]) == compared


def fingerprint(stored_documents: StoredDocuments, offset: int, count: int) -> str:
    return text_fingerprint((stored_documents.corpus_folder / "valid.txt").read_bytes()[offset : offset + count])


def test_the_bound_of_an_ancestor_holds_for_its_descendants(
    stored_documents: StoredDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    monkeypatch.setattr(seen_text, "KEPT_FINGERPRINTS", 5)
    write_seen_text(stored_documents.dataset, paths[0])
    monkeypatch.setattr(seen_text, "KEPT_FINGERPRINTS", 1000)
    write_seen_text(stored_documents.dataset, paths[1], ancestors=paths[0])
    assert bound_of(paths[1]) == bound_of(paths[0])
    assert digests_of(paths[1]) == digests_of(paths[0])
    monkeypatch.setattr(seen_text, "KEPT_FINGERPRINTS", 2)
    write_seen_text(stored_documents.dataset, paths[2], ancestors=paths[1])
    assert bound_of(paths[2]) < bound_of(paths[1])
    assert digests_of(paths[2]) == [digest for digest in digests_of(paths[1]) if digest < bound_of(paths[2])]


def test_what_an_ancestor_has_seen_is_seen(stored_documents: StoredDocuments, tmp_path: Path) -> None:
    own, older, newer = (tmp_path / f"{name}.parquet" for name in ("own", "older", "newer"))
    write_seen_text(stored_documents.dataset, own)
    full = text_fingerprint(b"another document")  # Files of rnnlm 0.3 and older contain the whole digests of documents.
    pq.write_table(pa.table({"sha256": [full]}), older)
    write_seen_text(stored_documents.dataset, newer, ancestors=older)
    assert not lists_lines(newer)
    assert digests_of(newer) == sorted([*digests_of(own, lines=False), full[:16]])
    write_seen_text(stored_documents.dataset, newer, ancestors=own)
    assert lists_lines(newer)
    assert pq.read_table(newer).to_pylist() == pq.read_table(own).to_pylist()
