"""Mean and interval of several runs, against figures from a table of Student's t."""

import math
from pathlib import Path

import pytest

from rnnlm.evaluation.seed_scores import mean_margin, seed_scores, seeds_sentence
from rnnlm.storage.records import RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from tests.split_scores import split_score_of


def run_of(name: str) -> RunRecord:
    return RunRecord(
        run_id=name,
        dataset_id="d",
        folder=Path(name),
        mlflow_run_id=None,
        trained_tokens=1,
        best_validation_perplexity=2.0,
    )


def evaluation_of(perplexity: float) -> EvaluationRecord:
    scores = {"valid": split_score_of(perplexity + 1, "valid"), "test": split_score_of(perplexity)}
    return EvaluationRecord(scores=scores)


def test_the_margin_of_a_mean_is_students() -> None:
    """Standard deviation 2 of 3 values, and t = 4.303 for 2 degrees of freedom."""
    assert mean_margin([98.0, 100.0, 102.0]) == pytest.approx(4.303 * 2 / math.sqrt(3), rel=1e-3)
    assert mean_margin([98.0]) is None


def test_scores_of_several_seeds_have_mean_deviation_and_range() -> None:
    scores = seed_scores([*map(run_of, "abc")], [*map(evaluation_of, (98.0, 102.0, 100.0))])
    assert scores.run_ids == ("a", "b", "c")
    assert scores.test_perplexities == (98.0, 102.0, 100.0)
    assert scores.validation_perplexities == (99.0, 103.0, 101.0)
    assert (scores.mean_test_perplexity, scores.deviation) == (100.0, 2.0)
    assert seeds_sentence(scores) == (
        "3 runs have mean test perplexity 100.00 ± 4.97 (95% interval of the mean), standard deviation 2.00, "
        "from 98.00 to 102.00"
    )
