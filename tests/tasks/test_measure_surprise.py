import pytest

from rnnlm.config import EvaluationConfig
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord
from tasks.measure_surprise import measure_surprise


@pytest.mark.long
def test_the_losses_lie_with_the_run_and_the_report_has_their_perplexity(
    toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    report = measure_surprise.fn(toy_dataset, toy_run, EvaluationConfig())
    assert f"perplexity {toy_evaluation.scores['test'].perplexity:.2f}" in report
    assert {path.suffix for path in (toy_run.folder / "losses").iterdir()} >= {".parquet", ".png"}
