"""The `score` flow creates an artifact on a real Prefect server. It emits an event only if the scores have drifted."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from prefect.artifacts import Artifact
from prefect.client.orchestration import get_client

from flows.operations.flow_runner import run_flow
from flows.scoring_flow import score_flow
from rnnlm.extensions.scoring import bulk_scoring
from rnnlm.extensions.scoring.reference_scores import keep_references
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from tests.registrar import Registrar
from tests.tasks.drift_events import awaited_drift_events

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.long
def test_the_champion_scores_shows_the_distribution_and_tells_of_drift(
    register: Registrar, tracked_home: Home, toy_folder: Path, tmp_path: Path
) -> None:
    keep_references(tracked_home, register.dataset, register.run)
    register()
    (tmp_path / "other.txt").write_text("river the the near . fox dog\nnear . . the\n" * 20)

    same = ScoringConfig(input=str(toy_folder / "test.txt"), output=str(tmp_path / "same.parquet"))
    scored = run_flow(tracked_home, score_flow, same)
    assert scored.scoring.model == "models:/rnnlm-toy@champion"
    assert not scored.drift.drifted
    assert len(pq.read_table(tmp_path / "same.parquet")) == 40
    artifact = Artifact.get("scores")
    assert artifact is not None
    assert artifact.flow_run_id is not None
    assert "data:image/png;base64,iVBOR" in str(artifact.data)
    assert "| 50% |" in str(artifact.data)

    other = ScoringConfig(input=str(tmp_path / "other.txt"), output=str(tmp_path / "other.parquet"))
    assert run_flow(tracked_home, score_flow, other).drift.drifted
    # Events are stored in order, so an event of the first run would be found together with that of the second run.
    (event,) = awaited_drift_events(tmp_path)
    assert event["payload"]["output"] == str(tmp_path / "other.parquet")
    assert "prefect.flow-run" in str(event["related"])

    skipped = run_flow(tracked_home, score_flow, same)
    assert skipped.scoring.skipped
    assert skipped.drift.distributions == scored.drift.distributions


@pytest.mark.long
def test_processes_score_what_one_process_scores(
    toy_run: RunRecord, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_scoring, "SCORED_BYTES_A_PROCESS", 1 << 20)
    text = tmp_path / "large.txt"
    text.write_text("the cat sees the dog near the river . " * 60_000 + "\n" + "the dog .\n" * 9_000)
    scores = []
    for processes in (1, 2):
        config = ScoringConfig(
            input=str(text),
            output=str(tmp_path / f"{processes}.parquet"),
            model=str(toy_run.model_folder),
            surprising_tokens=0,
            processes=processes,
        )
        scored = run_flow(home, score_flow, config)
        assert scored.scoring.totals.documents == 9_001
        scores.append(pq.read_table(tmp_path / f"{processes}.parquet"))
    one, two = scores
    assert one["tokens"] == two["tokens"]
    assert one["document"].to_pylist() == two["document"].to_pylist() == list(range(9_001))
    assert two["log_probability"].to_pylist() == pytest.approx(one["log_probability"].to_pylist(), rel=1e-5)
    with get_client(sync_client=True) as client:
        runs = [run.name for run in client.read_task_runs()]
    assert all(f"score shard {number:08d}" in runs for number in range(4))
