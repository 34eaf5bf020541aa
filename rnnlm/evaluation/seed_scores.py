"""The mean score of several runs that differ only in their seed, its confidence interval and the standard deviation."""

import statistics
from collections.abc import Sequence

from scipy.stats import t

from rnnlm.display.text_layout import TableRows
from rnnlm.storage.records import RunRecord
from rnnlm.storage.result_records import EvaluationRecord, MeanScore, PartScore, SeedScores, SplitScore

MEAN_CONFIDENCE = 0.95


def mean_margin(values: Sequence[float]) -> float | None:
    """Return half of the width of the 95 % confidence interval of the mean, by Student's t (1908).

    Return None for a single value.
    """
    if len(values) < 2:
        return None
    quantile = float(t.ppf((1 + MEAN_CONFIDENCE) / 2, len(values) - 1))
    return quantile * statistics.stdev(values) / len(values) ** 0.5


def seed_scores(runs: Sequence[RunRecord], evaluations: Sequence[EvaluationRecord]) -> SeedScores:
    """Return a summary of the evaluations of at least two runs."""
    means: list[MeanScore] = []
    for split in evaluations[0].scores:
        wholes = [evaluation.scores[split] for evaluation in evaluations]
        networks = [whole.network for whole in wholes if whole.network is not None]
        if networks:
            means.append(mean_score(split, "network", networks))
        means.append(mean_score(split, wholes[0].model, wholes))
    return SeedScores(run_ids=tuple(run.run_id for run in runs), scores=tuple(means))


def mean_score(split: str, model: str, scores: Sequence[PartScore] | Sequence[SplitScore]) -> MeanScore:
    perplexities = tuple(score.perplexity for score in scores)
    margin = mean_margin(perplexities)
    assert margin is not None
    return MeanScore(
        split=split,
        model=model,
        perplexities=perplexities,
        mean_perplexity=statistics.fmean(perplexities),
        deviation=statistics.stdev(perplexities),
        margin=margin,
        mean_bits_per_byte=statistics.fmean(score.bits_per_byte for score in scores),
    )


def seed_rows(seeds: SeedScores) -> TableRows:
    """Return a row for each split and model, with the mean and the standard deviation over the runs."""
    return [
        {
            "split": score.split,
            "model": score.model,
            "mean perplexity": f"{score.mean_perplexity:.2f}",
            f"± ({MEAN_CONFIDENCE:.0%})": f"{score.margin:.2f}",
            "standard deviation": f"{score.deviation:.2f}",
            "lowest": f"{min(score.perplexities):.2f}",
            "highest": f"{max(score.perplexities):.2f}",
        }
        for score in seeds.scores
    ]
