"""Two models are compared on validation lines that neither was trained or selected on. Each line counts once."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.corpora.line_digests import chooses, line_digest
from rnnlm.errors import CorpusError
from rnnlm.evaluation.paired import holdout_documents as grounds
from rnnlm.evaluation.paired.holdout_documents import (
    HoldoutDocument,
    comparison_documents,
    find_compared_lines,
    holdout_documents,
    is_in,
    is_whole_paragraph,
    read_texts,
)
from rnnlm.evaluation.paired.seen_text import write_seen_text
from tests.rnnlm.evaluation.paired.conftest import VALID, StoredDocuments


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def others(path: Path, *texts: str) -> Path:
    """Write the digests of another model's training text in the format of an older version, and return the file."""
    pq.write_table(pa.table({"sha256": pa.array(sorted(map(sha256, texts)), pa.string())}), path)
    return path


def own(stored_documents: StoredDocuments, folder: Path) -> Path:
    write_seen_text(stored_documents.dataset, folder / "own.parquet")
    return folder / "own.parquet"


def test_documents_seen_by_either_model_and_repetitions_are_left_out(
    stored_documents: StoredDocuments, tmp_path: Path
) -> None:
    seen = own(stored_documents, tmp_path)
    left = holdout_documents(
        stored_documents.dataset, [seen, others(tmp_path / "others.parquet", "a bird runs .\n\n", "else")]
    )
    assert [document.sha256 for document in left] == [sha256(VALID[number]) for number in (0, 4)]
    everything = others(tmp_path / "everything.parquet", *VALID)
    assert holdout_documents(stored_documents.dataset, [seen, everything]) == []


@pytest.mark.long
def test_a_sample_is_random_repeatable_and_in_the_corpus_s_order(
    stored_documents: StoredDocuments, tmp_path: Path
) -> None:
    none = [others(tmp_path / "none.parquet"), own(stored_documents, tmp_path)]
    whole = holdout_documents(stored_documents.dataset, none)
    assert holdout_documents(stored_documents.dataset, none, len(whole), 5) == whole
    drawn = [holdout_documents(stored_documents.dataset, none, 2, seed) for seed in range(40)]
    assert drawn[:3] == [holdout_documents(stored_documents.dataset, none, 2, seed) for seed in range(3)]
    assert {(one.document_id, other.document_id) for one, other in drawn} == {
        (one.document_id, other.document_id) for index, one in enumerate(whole) for other in whole[index + 1 :]
    }
    # One document is left out, so the sample is drawn from the remaining documents.
    without_one = [*none, others(tmp_path / "one.parquet", VALID[0])]
    assert set(holdout_documents(stored_documents.dataset, without_one, 3, 1)) >= set(drawn[1]) - {whole[0]}


LINES = [f"the {number}th line says {number * number}" for number in range(40)]
COMPARED = [number for number, line in enumerate(LINES) if not chooses(line_digest(line.encode()))]


def documents_of(folder: Path, *texts: str) -> list[HoldoutDocument]:
    (folder / "valid.txt").write_text("".join(texts), encoding="utf-8")
    found, offset = [], 0
    for number, text in enumerate(texts):
        size = len(text.encode())
        found.append(HoldoutDocument(number, "valid.txt", offset, size, sha256(text)))
        offset += size
    return found


def test_lines_whose_digest_does_not_choose_are_compared(tmp_path: Path) -> None:
    [document] = find_compared_lines(
        tmp_path, documents_of(tmp_path, "\n".join(LINES) + "\n\n"), np.zeros(0, np.uint64)
    )
    assert document.compared == tuple(COMPARED)
    assert document.digests == tuple(line_digest(LINES[number].encode()) for number in COMPARED)
    assert 10 < len(COMPARED) < 30


def test_seen_blank_and_repeated_lines_are_not_compared(tmp_path: Path) -> None:
    first, second, third = (LINES[number] for number in COMPARED[:3])
    texts = f"{first}\n\n{second}\n", f"{second}\n{third}\n", f"{first.upper()}!\n"
    documents = documents_of(tmp_path, *texts)
    none = np.zeros(0, np.uint64)
    assert [one.compared for one in find_compared_lines(tmp_path, documents, none)] == [(0, 2), (1,)]
    seen = np.array([line_digest(second.encode())], np.uint64)
    assert [one.compared for one in find_compared_lines(tmp_path, documents, seen)] == [(0,), (1,)]
    assert [one.compared for one in find_compared_lines(tmp_path, documents)] == [(0, 2), (0, 1), (0,)]
    bound = f"{sorted(line_digest(line.encode()) for line in (first, second, third))[1]:016x}"
    [below] = find_compared_lines(tmp_path, documents, none, bound)
    assert [f"{digest:016x}" < bound for digest in below.digests] == [True]


def test_lines_split_at_line_feeds_alone(tmp_path: Path) -> None:
    """Only a line feed ends a line. Other line separators of Unicode are part of the text.

    Hence the loss with index i belongs to line i of the file.
    """
    first, second, third = (LINES[number] for number in COMPARED[:3])
    text = f"{first}\r\n{second}\x0b\x85\u2028\r{third}\n{third}"
    [document] = find_compared_lines(tmp_path, documents_of(tmp_path, text), np.zeros(0, np.uint64))
    assert set(document.compared) <= {0, 1, 2}
    assert document.compared[-1] == 2


def test_text_that_repeats_itself_is_compared_by_its_documents(
    stored_documents: StoredDocuments, tmp_path: Path
) -> None:
    """The models are compared on whole documents if all unseen lines also occur in the training text."""
    seen = [own(stored_documents, tmp_path)]
    documents = comparison_documents(stored_documents.dataset, stored_documents.corpus_folder, seen, fewest_lines=0)
    texts = [text for text in (VALID[0], VALID[2], VALID[4]) if not chooses(line_digest(text.encode()))]
    assert [document.sha256 for document in documents] == [sha256(text) for text in texts]
    assert texts
    everything = tmp_path / "lines.parquet"
    digests = sorted(f"{line_digest(text.encode()):016x}" for text in VALID)
    rows = pa.table({"sha256": digests, "is_line": [True] * len(digests)})
    pq.write_table(rows.replace_schema_metadata({b"lines": b"listed"}), everything)
    assert (
        comparison_documents(
            stored_documents.dataset, stored_documents.corpus_folder, [*seen, everything], fewest_lines=0
        )
        == []
    )
    assert (
        comparison_documents(
            stored_documents.dataset, stored_documents.corpus_folder, [*seen, everything], fewest_lines=1
        )
        == documents
    )


def test_only_whole_paragraphs_have_the_fingerprints_of_older_versions(tmp_path: Path) -> None:
    texts = ["head\n\n", "a\nb\n", "c\n \n", "d\n\n\n", "e\n"]
    documents = documents_of(tmp_path, *texts)
    assert [is_whole_paragraph(tmp_path, document) for document in documents] == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("numbers", "found"), [([], []), ([1, 2, 3, 9], [False, True, False, True]), ([2, 2], [True] * 2)]
)
def test_numbers_are_looked_up_in_a_sorted_array(numbers: list[int], found: list[bool]) -> None:
    assert is_in(np.array([2, 9], np.uint64), np.array(numbers, np.uint64)).tolist() == found
    assert is_in(np.zeros(0, np.uint64), np.array(numbers, np.uint64)).tolist() == [False] * len(numbers)


def test_document_texts_are_the_bytes_of_the_corpus(
    stored_documents: StoredDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = holdout_documents(stored_documents.dataset, [own(stored_documents, tmp_path)])
    for at_once in (1, 30, 1 << 20):
        monkeypatch.setattr(grounds, "TEXT_BYTES_AT_ONCE", at_once)
        parts = list(read_texts(stored_documents.corpus_folder, documents))
        assert [text for part in parts for _, text in part] == [VALID[number] for number in (0, 2, 4)]
    assert len(parts) == 1


def test_a_missing_or_changed_corpus_is_refused(stored_documents: StoredDocuments, tmp_path: Path) -> None:
    documents = holdout_documents(stored_documents.dataset, [own(stored_documents, tmp_path)])
    text = stored_documents.corpus_folder / "valid.txt"
    text.chmod(0o644)
    text.write_text("".join(VALID).replace("bird", "boar"))
    with pytest.raises(CorpusError, match="have changed since the dataset was made"):
        list(read_texts(stored_documents.corpus_folder, documents))
    text.unlink()
    with pytest.raises(CorpusError, match="cannot be read"):
        list(read_texts(stored_documents.corpus_folder, documents))
