"""Every check in sql/checks detects the corresponding fault. Every SQL file is one statement with a header."""

from pathlib import Path

import duckdb
import pytest

from rnnlm.errors import DatasetError
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.storage.package_files import package_file
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import names, statement

INSERT = "insert into shifted_sequences (split, sequence_id, token_ids) values "
FAULTS = {  # For each check, FAULTS has SQL statements that change a valid dataset so that the check finds a fault.
    "bos_is_never_predicted": INSERT + "('train', 900, [2, 2])",
    "pad_is_never_stored": INSERT + "('train', 900, [2, 0])",
    "every_sequence_predicts": INSERT + "('train', 900, [2])",
    "every_token_is_predicted_once": "delete from shifted_sequences where split = 'test' and sequence_id = 3",
    "ids_are_in_the_vocabulary": "delete from tokens where token_id = 5",
    "sequence_ids_run_from_zero": "update shifted_sequences set sequence_id = 900 where sequence_id = 3",
    # In a stream, consecutive blocks must overlap by one token. The blocks of this dataset do not overlap.
    "stream_blocks_overlap_by_one": "update dataset set mode = 'stream'",
    "training_counts_agree": "update tokens set training_count = training_count + 1 where token_id = 5",
    "no_document_lies_in_two_splits": "update dataset set splits_given = false",
    "provenance_is_one_row": "delete from dataset",
    "validation_lines_hold_every_token": "delete from validation_lines where line_id = 0",
    "unknown_words_are_predicted_tokens": "update documents set unknown_tokens = predicted_tokens + 1",
}


def broken(dataset: DatasetRecord, fault: str) -> list[str]:
    """Return the names of the checks that find a fault after the SQL statement `fault` was executed."""
    with duckdb.connect(str(dataset.database)) as connection:
        connection.execute(fault)
        return [name for name in names("checks") if connection.execute(statement(name)).fetchone() is not None]


def test_every_check_has_a_fault() -> None:
    assert {f"checks/{name}" for name in FAULTS} == set(names("checks"))


@pytest.mark.parametrize("check", FAULTS)
def test_a_check_finds_its_fault(toy_dataset: DatasetRecord, check: str) -> None:
    if check == "no_document_lies_in_two_splits":
        broken(
            toy_dataset,
            "update documents set split_key = 'same' "
            "where document_id in (0, (select max(document_id) from documents))",
        )
        broken(toy_dataset, "update documents set split = 'train' where document_id = 0")
        broken(
            toy_dataset,
            "update documents set split = 'test' where document_id = (select max(document_id) from documents)",
        )
    assert f"checks/{check}" in broken(toy_dataset, FAULTS[check])


def test_a_broken_dataset_is_told_with_the_check_and_the_row(toy_dataset: DatasetRecord) -> None:
    broken(toy_dataset, FAULTS["training_counts_agree"])
    with pytest.raises(DatasetError, match=r"sql/checks/training_counts_agree\.sql returned \(5,"):
        check_dataset(toy_dataset)


@pytest.mark.parametrize("path", sorted(package_file("sql").rglob("*.sql")), ids=lambda path: path.stem)
def test_a_file_is_one_statement_with_a_header(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("-- ")
    body = "\n".join(line.split("--")[0] for line in text.splitlines())
    assert body.strip().endswith(";")
    assert body.count(";") == 1
    assert body == body.lower()


def test_every_statement_is_used() -> None:
    # The source does not name the files of checks/ and descriptions/, because loops run all files of these folders.
    source = "".join(path.read_text(encoding="utf-8") for path in (package_file("sql").parent / "rnnlm").rglob("*.py"))
    rooms = ("queries", "schema", "ngram", "surprise", "promotion", "scoring")
    for name in [name for room in rooms for name in names(room)]:
        assert f'"{name}"' in source, name
