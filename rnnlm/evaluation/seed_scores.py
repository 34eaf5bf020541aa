"""The scores of several runs that differ in their seed alone: the mean, the deviation, the interval of the mean."""

import statistics
from collections.abc import Sequence

from scipy.stats import t

from rnnlm.storage.records import RunRecord
from rnnlm.storage.result_records import EvaluationRecord, SeedScores

MEAN_CONFIDENCE = 0.95


def mean_margin(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the mean, by Student's t (1908); None for one value."""
    if len(values) < 2:
        return None
    quantile = float(t.ppf((1 + MEAN_CONFIDENCE) / 2, len(values) - 1))
    return quantile * statistics.stdev(values) / len(values) ** 0.5


def seed_scores(runs: Sequence[RunRecord], evaluations: Sequence[EvaluationRecord]) -> SeedScores:
    """The scores of at least two runs, by their evaluations."""
    test = tuple(evaluation.scores["test"].perplexity for evaluation in evaluations)
    margin = mean_margin(test)
    assert margin is not None
    return SeedScores(
        run_ids=tuple(run.run_id for run in runs),
        validation_perplexities=tuple(evaluation.scores["valid"].perplexity for evaluation in evaluations),
        test_perplexities=test,
        mean_test_perplexity=statistics.fmean(test),
        deviation=statistics.stdev(test),
        margin=margin,
    )


def seeds_sentence(scores: SeedScores) -> str:
    """`5 runs have mean test perplexity …`, for people."""
    low, high = min(scores.test_perplexities), max(scores.test_perplexities)
    return (
        f"{len(scores.run_ids)} runs have mean test perplexity {scores.mean_test_perplexity:.2f} ± {scores.margin:.2f} "
        f"({MEAN_CONFIDENCE:.0%} interval of the mean), standard deviation {scores.deviation:.2f}, "
        f"from {low:.2f} to {high:.2f}"
    )
