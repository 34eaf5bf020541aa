"""The mean of several runs and its confidence interval agree with a table of Student's t."""

import math
from pathlib import Path

import pytest

from rnnlm.evaluation.seed_scores import mean_margin, seed_rows, seed_scores
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


def evaluation_of(perplexity: float, network: float | None = None) -> EvaluationRecord:
    parts = {} if network is None else {"network": {"perplexity": network, "bits_per_byte": network / 100}}
    model = "network" if network is None else "mixed"
    scores = {
        "valid": split_score_of(perplexity + 1, "valid", model=model, **parts),
        "test": split_score_of(perplexity, model=model, **parts),
    }
    return EvaluationRecord(scores=scores)


def test_the_margin_of_a_mean_is_students() -> None:
    """The margin of a mean is half the width of the confidence interval by Student's t distribution.

    The standard deviation of the 3 values is 2, and t = 4.303 for 2 degrees of freedom.
    """
    assert mean_margin([98.0, 100.0, 102.0]) == pytest.approx(4.303 * 2 / math.sqrt(3), rel=1e-3)
    assert mean_margin([98.0]) is None


def test_scores_of_several_seeds_have_mean_deviation_and_range() -> None:
    scores = seed_scores([*map(run_of, "abc")], [*map(evaluation_of, (98.0, 102.0, 100.0))])
    assert scores.run_ids == ("a", "b", "c")
    valid, test = scores.scores
    assert (valid.split, valid.model, valid.perplexities) == ("valid", "network", (99.0, 103.0, 101.0))
    assert (test.split, test.model, test.perplexities) == ("test", "network", (98.0, 102.0, 100.0))
    assert (test.mean_perplexity, test.deviation, test.mean_bits_per_byte) == (100.0, 2.0, 1.5)
    assert test.margin == mean_margin(test.perplexities)
    assert seed_rows(scores)[1] == {
        "split": "test",
        "model": "network",
        "mean perplexity": "100.00",
        "± (95%)": "4.97",
        "standard deviation": "2.00",
        "lowest": "98.00",
        "highest": "102.00",
    }


def test_networks_have_scores_of_their_own_where_counts_are_mixed_in() -> None:
    scores = seed_scores([*map(run_of, "ab")], [evaluation_of(90.0, 110.0), evaluation_of(92.0, 114.0)])
    assert [(score.split, score.model, score.mean_perplexity) for score in scores.scores] == [
        ("valid", "network", 112.0),
        ("valid", "mixed", 92.0),
        ("test", "network", 112.0),
        ("test", "mixed", 91.0),
    ]
    assert [score.mean_bits_per_byte for score in scores.scores] == pytest.approx([1.12, 1.5, 1.12, 1.5])
