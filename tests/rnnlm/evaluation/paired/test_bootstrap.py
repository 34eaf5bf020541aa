"""The paired bootstrap gives the sums of a calculation by hand. It raises no more false alarms than configured."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.config import RegistryConfig
from rnnlm.evaluation.paired import bootstrap
from rnnlm.evaluation.paired.bootstrap import (
    Units,
    confidence_bounds,
    correlation_widening,
    document_widening,
    evidence_from,
    measure_evidence,
    resampled_differences,
    spent_confidence,
    sum_skewness,
    unit_sums,
    units_of_lines,
)
from rnnlm.evaluation.paired.paired_losses import PAIRED_LOSSES_SCHEMA
from rnnlm.storage.result_records import Evidence

BYTES = [10, 20, 70]
CANDIDATE = [10.0, 30.0, 60.0]  # The candidate's loss on each document in nats. The sum is 100.
CHAMPION = [12.0, 28.0, 80.0]  # The champion's loss on each document in nats. The sum is 120.


def evidence_of(
    losses: Path, config: RegistryConfig | None = None, *, must_be_better: bool = False, lines: list[int] | None = None
) -> Evidence:
    only_lines = None if lines is None else np.array(lines, np.uint64)
    found = measure_evidence(losses, config or RegistryConfig(), must_be_better=must_be_better, only_lines=only_lines)
    assert found is not None
    return found


def write_losses(path: Path, candidate: list[float], champion: list[float], byte_counts: list[int]) -> Path:
    """Write the losses of both models in random order, because the result must not depend on the order in the file."""
    rows = [
        {
            "role": role,
            "document_id": number,
            "line": 0,
            "digest": number,
            "sha256": f"{number:064x}",
            "byte_count": byte_count,
            "tokens": 3,
            "nll_nats": nats[number],
            "restoration_bits": 0.0,
            "total_nats": nats[number],
        }
        for number, byte_count in enumerate(byte_counts)
        for role, nats in (("candidate", candidate), ("champion", champion))
    ]
    pq.write_table(pa.Table.from_pylist(rows[::-1], PAIRED_LOSSES_SCHEMA), path)
    return path


def test_the_sums_equal_those_by_hand(tmp_path: Path) -> None:
    losses = write_losses(tmp_path / "losses.parquet", CANDIDATE, CHAMPION, BYTES)
    evidence = evidence_of(losses, must_be_better=True)
    assert (evidence.documents, evidence.lines, evidence.units, evidence.byte_count) == (3, 3, 3, 100)
    assert evidence.candidate_nats_per_byte == pytest.approx(1.0)
    assert evidence.champion_nats_per_byte == pytest.approx(1.2)
    assert evidence.difference == pytest.approx(-0.2)
    assert (evidence.confidence, evidence.resamples, evidence.comparison) == (0.975, 10_000, 1)
    assert evidence.lower < -0.2 < evidence.upper


def test_bounds_equal_those_of_a_slow_bootstrap(tmp_path: Path) -> None:
    losses = write_losses(tmp_path / "losses.parquet", CANDIDATE, CHAMPION, BYTES)
    evidence = evidence_of(losses, RegistryConfig(resamples=500, confidence=0.9, seed=7), must_be_better=True)
    draw = np.random.Generator(np.random.PCG64(7))
    differences = []
    for row in draw.integers(0, 3, (500, 3)):
        excess = sum(CANDIDATE[number] - CHAMPION[number] for number in row)
        differences.append(excess / sum(BYTES[number] for number in row))
    # A two-sided confidence of 0.9 means 0.95 for each one-sided bound. Units of 10, 20 and 70 bytes correspond to
    # 5400² / 24,180,000 units of equal size.
    worth = 29_160_000 / 24_180_000
    # The 95 % quantile of Student's t with one degree of freedom, which is the smallest number of degrees.
    margin = 6.3137515 * worth**0.5 * np.std(differences, ddof=1)
    assert [evidence.lower, evidence.upper] == pytest.approx([-0.2 - margin, -0.2 + margin])


def test_units_are_documents_or_runs_of_lines_if_these_are_few() -> None:
    documents = np.repeat(np.arange(300), 3)
    units = units_of_lines(documents, np.ones(900), np.full(900, 2.0))
    assert (units.are_runs, len(units.excess_nats)) == (False, 300)
    assert (set(units.excess_nats), set(units.byte_counts)) == ({3.0}, {6.0})
    units = units_of_lines(documents // 100, np.ones(900), np.full(900, 2.0))
    assert (units.are_runs, len(units.excess_nats), units.excess_nats.sum()) == (True, 200, 900)
    assert units.document_starts is not None
    # The documents begin at lines 300 and 600, within runs that belong to the previous documents. The next runs begin
    # at lines 301 and 603.
    assert units.document_starts.tolist() == [0, 67, 134]
    units = units_of_lines(np.zeros(7, int), np.ones(7), np.ones(7))
    assert (units.are_runs, len(units.excess_nats)) == (True, 7)


def test_a_document_whose_units_agree_counts_as_one() -> None:
    """A document counts as a single unit if all of its units have the same difference.

    The data is ten documents with four equal units each. The mean of 10 values has twice the deviation of the mean of
    40.
    """
    values = np.array([3, -3, 5, -5, 1, -1, 2, -2, 4, -4.0])
    # The factor is the square root of 4 units per document times 10 documents / 9 degrees of freedom.
    expected = (4 * 10 / 9) ** 0.5
    assert document_widening(np.repeat(values, 4), np.arange(0, 40, 4)) == pytest.approx(expected)
    # The values in each document cancel, so the interval is not widened.
    assert document_widening(np.tile([1, -1.0], 20), np.arange(0, 40, 4)) == 1.0
    # The correlation within documents cannot be estimated from a single document.
    assert document_widening(np.repeat(values, 4), np.array([0])) == 1.0
    assert document_widening(np.zeros(40), np.arange(0, 40, 4)) == 1.0


def test_a_long_tail_widens_the_bound_on_its_side_alone() -> None:
    # The 100 units have 1 byte each, and the standard deviation of the draws is 1.
    sizes, draws = np.ones(100), np.array([-1.0, 0.0, 1.0])
    lower, upper = confidence_bounds(0.0, draws, sizes, 0.95)
    margin = 1.66039 * (100 / 99) ** 0.5  # 1.66039 is the 95 % quantile of Student's t with 99 degrees of freedom.
    assert (lower, upper) == (pytest.approx(-margin, abs=1e-4), pytest.approx(margin, abs=1e-4))
    shift = 0.3 * (2 * 1.66039**2 + 1) / 6 * (100 / 99) ** 0.5
    assert confidence_bounds(0.0, draws, sizes, 0.95, skewness=0.3) == pytest.approx((lower, upper + shift), abs=1e-4)
    assert confidence_bounds(0.0, draws, sizes, 0.95, skewness=-0.3) == pytest.approx((lower - shift, upper), abs=1e-4)
    assert sum_skewness(np.array([-1.0, -1.0, 2.0])) == pytest.approx(6 / 6**1.5)


@pytest.mark.parametrize("rare_loss", [0.0, 1.0])
def test_equal_models_with_rare_heavy_losses_keep_the_promise(rare_loss: float) -> None:
    """Equal models seem to differ in at most 7 % of all cases, even if the losses of a few units are large.

    The candidate is slightly better in most units and much worse in one of thirty, but equal on average.
    """
    draw = np.random.default_rng(2)
    found = 0
    for trial in range(600):
        heavy = draw.random(200) < 1 / 30
        excess = draw.normal(0, 0.1, 200) + rare_loss * (heavy - 1 / 30)
        units = Units(excess, np.ones(200))
        totals = {"documents": 200, "lines": 200, "byte_count": 200, "difference": excess.mean()}
        totals |= {"candidate_nats_per_byte": 1.0, "champion_nats_per_byte": 1.0}
        found += evidence_from(totals, units, RegistryConfig(resamples=200, seed=trial)).upper < 0
    # The configured fraction is 5 %. Without the correction for skewness, 9 % of candidates would seem to be better.
    assert found <= 0.07 * 600


def test_only_the_lines_asked_for_count(tmp_path: Path) -> None:
    losses = write_losses(tmp_path / "losses.parquet", CANDIDATE, CHAMPION, BYTES)
    assert evidence_of(losses, lines=[0, 1, 2, 99]) == evidence_of(losses)
    two = evidence_of(losses, lines=[0, 2])
    assert (two.lines, two.byte_count, two.difference) == (2, 80, pytest.approx((70 - 92) / 80))
    assert measure_evidence(losses, RegistryConfig(), only_lines=np.array([99], np.uint64)) is None


def test_error_probabilities_sum_to_the_promised_one() -> None:
    spent = [1 - spent_confidence(0.95, comparison) for comparison in range(1, 1_000)]
    assert sum(spent) == pytest.approx(0.05, rel=0.002)
    assert spent == sorted(spent, reverse=True)


def test_a_model_is_not_better_than_itself(tmp_path: Path) -> None:
    losses = write_losses(tmp_path / "losses.parquet", CANDIDATE, CANDIDATE, BYTES)
    # Equal models have no differences, and hence no correlation that could widen the bounds.
    evidence = evidence_of(losses)
    assert (evidence.difference, evidence.lower, evidence.upper) == (0.0, 0.0, 0.0)


def test_many_documents_are_drawn_in_runs_of_neighbours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap, "FEW_DOCUMENTS", 3)
    monkeypatch.setattr(bootstrap, "MAXIMUM_UNITS", 2)
    assert unit_sums(np.array([1, 2, 3, 4, 5])).tolist() == [3, 12]
    losses = write_losses(tmp_path / "losses.parquet", CANDIDATE, CHAMPION, BYTES)
    evidence = evidence_of(losses)
    assert (evidence.documents, evidence.units) == (3, 2)
    assert evidence.difference == pytest.approx(-0.2)


def is_better(excess: np.ndarray, sizes: np.ndarray, confidence: float, seed: int, resamples: int = 400) -> bool:
    resampled = resampled_differences(excess, sizes, resamples, seed)
    return confidence_bounds(excess.sum() / sizes.sum(), resampled, sizes, confidence)[1] < 0


@pytest.mark.parametrize("units", [10, 30, 250])
def test_equal_models_differ_no_more_often_than_promised(units: int) -> None:
    """About 5 % of 600 candidates seem to be better if they differ from the champion only by chance."""
    draw = np.random.default_rng(0)
    found = 0
    for trial in range(600):
        sizes = draw.integers(50, 500, units)
        found += is_better(draw.normal(0, 0.1, units) * sizes, sizes, 0.95, trial, 200)
    assert 0.025 * 600 <= found <= 0.075 * 600


@pytest.mark.long
def test_twenty_nights_give_no_more_false_alarms_than_promised() -> None:
    """Over twenty nightly runs, champions are replaced by mistake no more often than the confidence allows.

    Each of 100 champions is compared with 20 equally good candidates on the same documents.
    """
    draw = np.random.default_rng(1)
    sizes = draw.integers(50, 500, 250)
    replaced = naive = 0
    for champion in range(100):
        nights = [draw.normal(0, 0.1, 250) * sizes for _ in range(20)]
        replaced += any(
            is_better(excess, sizes, spent_confidence(0.95, night), 20 * champion + night, 200)
            for night, excess in enumerate(nights, start=1)
        )
        naive += any(is_better(excess, sizes, 0.95, 20 * champion, 200) for excess in nights)
    assert replaced <= 9
    assert naive > 40


def test_a_small_but_steady_difference_is_seen() -> None:
    draw = np.random.default_rng(0)
    sizes = draw.integers(50, 500, 250)
    # The mean difference of -0.02 is a fifth of the standard deviation of 0.1 between documents.
    excess = draw.normal(-0.02, 0.1, 250) * sizes
    assert is_better(excess, sizes, 0.975, seed=0)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_bounds_widen_with_the_correlation_of_neighbours(correlation: float) -> None:
    """Correlation of neighbours widens the bounds by the expected factor.

    The mean deviates sqrt((1 + c) / (1 - c)) times as much if neighbouring values have the correlation c.
    """
    draw = np.random.default_rng(0)
    found = []
    for _ in range(200):
        series = draw.normal(size=200)
        for index in range(1, 200):
            series[index] += correlation * series[index - 1]
        found.append(correlation_widening(series - series.mean()))
    # The expected factors are 1 and 1.73. A part of the correlation is not detected, because few lags are used.
    expected = ((1 + correlation) / (1 - correlation)) ** 0.5
    assert 0.85 * expected <= np.mean(found) <= 1.1 * expected
    assert min(found) >= 1
