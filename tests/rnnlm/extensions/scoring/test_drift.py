"""The drift distance equals SciPy's result and a value calculated by hand.

Drift is reported only for text of another kind.
"""

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.extensions.scoring.bulk_scoring import score_texts
from rnnlm.extensions.scoring.drift import distributions, measure_drift
from rnnlm.extensions.scoring.reference_scores import keep_references
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from tests.rnnlm.extensions.scoring.conftest import Configure


def written(path: Path, values: list[float | None]) -> Path:
    pq.write_table(pa.table({"bits_per_byte": pa.array(values, pa.float64())}), path)
    return path


@pytest.mark.parametrize(
    ("scored", "reference", "distance"),
    [
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], 0.0),
        # Half of the first sample's values are below 3, and none of the second's, so the distance is 0.5.
        ([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0], 0.5),
        # Equal values form a single step. At 1, the cumulative fractions are 3/4 and 1/2, so the distance is 1/4.
        ([1.0, 1.0, 1.0, 2.0], [1.0, 2.0], 0.25),
        ([1.0], [2.0, 3.0], 1.0),
        ([5.0, None], [1.0, 9.0, None], 0.5),  # None is a document without predicted tokens. It is not counted.
    ],
)
def test_the_distance_is_the_widest_gap_between_the_distribution_functions(
    tmp_path: Path, scored: list[float | None], reference: list[float | None], distance: float
) -> None:
    found = distributions(written(tmp_path / "a.parquet", scored), written(tmp_path / "b.parquet", reference))
    assert found.distance == pytest.approx(distance)
    assert found.documents == sum(value is not None for value in scored)
    assert found.reference_documents == sum(value is not None for value in reference)
    turned = distributions(tmp_path / "b.parquet", tmp_path / "a.parquet")
    assert turned.distance == pytest.approx(distance)


@pytest.mark.long
def test_distance_and_chance_are_those_of_scipy(tmp_path: Path) -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(0)
    one = [draw.gauss(0, 1) for _ in range(700)]
    other = [round(draw.gauss(0.3, 1.2), 2) for _ in range(300)]
    found = distributions(written(tmp_path / "a.parquet", list(one)), written(tmp_path / "b.parquet", list(other)))
    assert found.distance == pytest.approx(stats.ks_2samp(one, other).statistic)
    # According to the asymptotic formula, the distance `noise` has a p-value of 0.001 for 700 and 300 documents.
    assert stats.kstwobign.sf(found.noise * (700 * 300 / 1000) ** 0.5) == pytest.approx(0.001, rel=0.01)


def shuffled(path: Path, target: Path) -> Path:
    """Write the words of `path` in random order to `target`."""
    draw = random.Random(0)
    lines = [draw.sample(line.split(), len(line.split())) for line in path.read_text().splitlines()]
    target.write_text("\n".join(map(" ".join, lines)) + "\n")
    return target


@pytest.mark.long
@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
def test_text_of_the_same_kind_is_quiet_and_other_text_is_told(
    home: Home, configure: Configure, toy_dataset: DatasetRecord, toy_run: RunRecord, tmp_path: Path, ending: str
) -> None:
    (same,) = home.corpora.glob("*/test.txt")
    keep_references(home, toy_dataset, toy_run)
    for path, drifted in ((same, False), (shuffled(same, tmp_path / "shuffled.txt"), True)):
        config = configure(input=str(path), output=str(tmp_path / f"{path.stem}.{ending}"))
        drift = measure_drift(home, config, score_texts(home, config))
        assert drift.drifted is drifted
        assert drift.distributions is not None
        assert drift.distributions.documents == drift.distributions.reference_documents == 40
        assert drift.picture is not None
        assert drift.picture.read_bytes().startswith(b"\x89PNG")


def test_the_threshold_decides_where_chance_does_not(home: Home, configure: Configure, tmp_path: Path) -> None:
    (same,) = home.corpora.glob("*/test.txt")
    config = configure(input=str(shuffled(same, tmp_path / "shuffled.txt")), drift_threshold=1.0)
    drift = measure_drift(home, config, score_texts(home, config))
    assert drift.distributions is not None
    assert not drift.drifted
    assert drift.distributions.distance > drift.distributions.noise


def test_without_a_reference_the_scores_stand_and_the_reason_is_given(home: Home, configure: Configure) -> None:
    config = configure()
    shutil.rmtree(home.datasets)
    drift = measure_drift(home, config, score_texts(home, config))
    assert (drift.drifted, drift.distributions, drift.picture) == (False, None, None)
    assert "its dataset" in drift.reason


def test_nothing_scored_is_no_drift(home: Home, configure: Configure, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n\n")
    config = configure(input=str(tmp_path / "blank.txt"))
    assert measure_drift(home, config, score_texts(home, config)).reason == "nothing was scored"
