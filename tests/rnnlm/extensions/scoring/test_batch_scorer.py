"""BatchScorer returns the scores of `rnnlm score` to libraries such as datasets and datatrove."""

import json
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

from rnnlm.extensions.scoring.batch_scorer import BATCH_COLUMNS, batch_scorer
from rnnlm.extensions.scoring.datatrove import BitsPerByteFilter, BitsPerByteStats
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from tests.rnnlm.extensions.scoring.conftest import LINES, Score


@pytest.mark.long
def test_a_dataset_is_mapped_in_batches_and_cached(home: Home, toy_run: RunRecord, score: Score) -> None:
    dataset = datasets.Dataset.from_dict({"body": LINES, "n": list(range(len(LINES)))})
    mapped = dataset.map(batch_scorer(toy_run.run_id, column="body"), batched=True, batch_size=4)
    assert mapped.column_names == ["body", "n", *BATCH_COLUMNS]
    expected = pq.read_table(score().output)
    for name in ("tokens", "bytes", "unknown_rate"):
        assert mapped[name][:] == expected[name].to_pylist()
    assert mapped["log_probability"][:] == pytest.approx(expected["log_probability"].to_pylist(), rel=1e-5)
    again = dataset.map(batch_scorer(toy_run.run_id, column="body"), batched=True, batch_size=4)
    assert again._fingerprint == mapped._fingerprint


@pytest.mark.long
def test_a_pipeline_of_datatrove_filters_and_measures(home: Home, toy_run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = "".join(json.dumps({"text": line or " ", "id": str(n)}) + "\n" for n, line in enumerate(LINES))
    (tmp_path / "in" / "a.jsonl").write_text(rows)
    dropped = JsonlWriter(str(tmp_path / "dropped"), compression=None)
    executor = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(tmp_path / "in")),
            BitsPerByteFilter(toy_run.run_id, highest=1.5, exclusion_writer=dropped, batch_size=3),
            BitsPerByteStats(str(tmp_path / "stats"), toy_run.run_id, groups_to_compute=["summary"]),
            JsonlWriter(str(tmp_path / "kept"), compression=None),
        ],
        logging_dir=str(tmp_path / "logs"),
    )
    executor.run()
    kept, others = (
        [json.loads(line) for path in sorted((tmp_path / side).glob("*.jsonl")) for line in path.open()]
        for side in ("kept", "dropped")
    )
    bits = dict(zip(LINES, batch_scorer(toy_run.run_id)({"text": LINES})["bits_per_byte"], strict=True))
    assert [row["text"] for row in kept] == [line for line in LINES if line and bits[line] <= 1.5]
    assert len(kept) + len(others) == len(LINES)
    assert {row["metadata"]["filter_reason"] for row in others} == {"above_1.5_bits_per_byte", "nothing_to_score"}
    summary = json.loads((tmp_path / "stats" / "summary" / "bits_per_byte" / "00000.json").read_text())["summary"]
    assert summary["total"] == pytest.approx(sum(row["metadata"]["bits_per_byte"] for row in kept))
