"""Checks, descriptions and promotion query ten million documents within DuckDB's memory limit."""

import json
from pathlib import Path

import duckdb
import pytest

from rnnlm.evaluation.paired import seen_text
from rnnlm.evaluation.paired.holdout_documents import holdout_documents
from rnnlm.evaluation.paired.seen_text import write_seen_text
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_report import measure_dataset
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import names, statement
from rnnlm.storage.stage_folders import DatasetFolder

DOCUMENTS = 10_000_000
REPEATED = DOCUMENTS // 1_000
# A document consists of 4 tokens: its number in three digits of base 1,000, and <eos>.
TOKENS, VOCABULARY = 4, 1_004
SHARES = {"test": 0.05, "valid": 0.05, "train": 0.9}

# Every thousandth document repeats the previous document. Each document is a source whose key determines its split.
CONTENTS = """
create temporary table contents as
select
    number,
    number - if(number % 1000 = 7, 1, 0) as text,
    format('{:016x}', hash(text)) as key,
    cast(case when hash(text) / 2::double ** 64 < 0.05 then 'test'
              when hash(text) / 2::double ** 64 < 0.1 then 'valid' else 'train' end as split) as split
from range($documents) as numbers (number)
"""
INSERT_DOCUMENTS = """
insert into documents
select number, split, 'text.txt', text, 30 * number, 30, 1, sha256(key), sha256('letters' || key), key, 4, 0, 0
from contents order by number
"""
INSERT_VALIDATION_LINES = """
insert into validation_lines
select row_number() over (order by number) - 1, hash(text), 4 from contents where split = 'valid' order by number
"""
INSERT_TRAINING_LINES = "insert into training_lines select hash(text) from contents where split = 'train'"
INSERT_SEQUENCES = """
insert into shifted_sequences
select
    split,
    row_number() over (partition by split order by number) - 1 as sequence_id,
    cast([if(sequence_id = 0, 2, 3), 4 + text % 1000, 4 + text // 1000 % 1000, 4 + text // 1000000, 3] as token_id[])
from contents order by split, sequence_id
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetRecord:
    folder = tmp_path_factory.mktemp("large")
    with duckdb.connect(str(folder / "sequences.duckdb"), config={"memory_limit": "2GiB"}) as connection:
        for name in (
            "split",
            "token_id",
            "documents",
            "validation_lines",
            "training_lines",
            "shifted_sequences",
            "tokens",
            "dataset",
        ):
            connection.execute(statement(f"schema/{name}"))
        connection.execute(CONTENTS, {"documents": DOCUMENTS})
        connection.execute(INSERT_DOCUMENTS)
        connection.execute(INSERT_SEQUENCES)
        connection.execute(INSERT_VALIDATION_LINES)
        connection.execute(INSERT_TRAINING_LINES)
        incoming = connection.sql(
            f"select id::token_id as token_id, 't' || id as token from range({VOCABULARY}) t (id)"
        )
        connection.register("incoming", incoming.to_arrow_table())
        connection.execute(statement("queries/insert_tokens"))
        connection.execute(
            "insert into dataset"
            " values ('large', '', '', 'stream', $tokens, $tokens, $vocabulary, false, $highest, '{}')",
            {"tokens": TOKENS, "vocabulary": VOCABULARY, "highest": 2**64 - 1},
        )
        counts = dict(connection.execute("select split::varchar, count(*) from documents group by split").fetchall())
    facts = {
        "corpus_name": "large",
        "corpus_digest": "",
        "mode": "stream",
        "vocabulary_size": VOCABULARY,
        "predicted_tokens": {split: TOKENS * count for split, count in counts.items()},
        "sequence_counts": counts,
    }
    (folder / "dataset.json").write_text(json.dumps(facts))
    return DatasetFolder(folder).record()


@pytest.mark.slow
def test_every_check_runs_and_passes(dataset: DatasetRecord) -> None:
    assert len(check_dataset(dataset)) == len(names("checks"))


@pytest.mark.slow
def test_the_description_is_exact_or_a_near_estimate(dataset: DatasetRecord) -> None:
    description = measure_dataset(dataset)
    assert {row["split"] for row in description.duplicates} == set(SHARES)
    for row in description.duplicates:
        share = SHARES[row["split"]]
        assert row["sequence_count"] == row["document_count"] == dataset.sequence_counts[row["split"]]
        assert row["document_count"] == pytest.approx(share * DOCUMENTS, rel=0.01)
        # Only a fifth of the rows are compared. About 1,800 repetitions are found in the training split, and 100 in the
        # others.
        assert row["repeated_sequences"] == pytest.approx(share * REPEATED, rel=0.1 if share > 0.5 else 0.4)
        assert row["repeated_documents"] == pytest.approx(share * REPEATED, rel=0.1 if share > 0.5 else 0.4)
    assert {(row["split"], row["leaked_units"], row["leaked_share"]) for row in description.leaks} == {
        ("test", 0, 0.0),
        ("valid", 0, 0.0),
    }
    assert description.sources is not None
    for row in description.sources:
        assert row["shared_documents"] == 0
        assert row["document_count"] == dataset.sequence_counts[row["split"]]
    assert [line["predicted_tokens"] for line in description.longest_lines] == [TOKENS] * len(description.longest_lines)


@pytest.mark.slow
def test_two_models_are_compared_on_a_bounded_number_of_documents(dataset: DatasetRecord, tmp_path: Path) -> None:
    seen = write_seen_text(dataset, tmp_path / "known.parquet")
    assert seen == pytest.approx(SHARES["train"] * (DOCUMENTS - REPEATED), rel=0.01)
    assert (tmp_path / "known.parquet").stat().st_size < 8 * seen_text.KEPT_FINGERPRINTS
    documents = holdout_documents(dataset, [tmp_path / "known.parquet"] * 2, 10_000, 1)
    assert len({document.sha256 for document in documents}) == 10_000
