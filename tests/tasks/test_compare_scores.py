from pathlib import Path

from rnnlm.home import Home
from rnnlm.records import RunRecord
from rnnlm.scoring.bulk_scoring import score_texts
from rnnlm.scoring.scoring_config import ScoringConfig
from tasks.compare_scores import compare_scores


def test_validation_text_does_not_drift_from_itself(home: Home, toy_run: RunRecord, tmp_path: Path) -> None:
    (valid,) = home.corpora.glob("*/valid.txt")
    config = ScoringConfig(input=str(valid), output=str(tmp_path / "scores.parquet"), model=toy_run.run_id)
    drift = compare_scores.fn(config, score_texts(home, config))
    assert drift.distributions is not None
    assert drift.distributions.distance < 0.1  # 40 lines; equal ones may differ in the last bit of a float
    assert not drift.drifted
