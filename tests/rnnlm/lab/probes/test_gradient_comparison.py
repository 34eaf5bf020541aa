"""Fresh networks beside each other on the windows of a corpus."""

import pytest

from rnnlm.lab.probes.gradients import measure_gradients
from rnnlm.lab.probes.probe_config import GradientProbeConfig
from rnnlm.lab.probes.probe_records import GradientCurve
from rnnlm.presets import build_config
from rnnlm.sequences.dataset_writer import prepare_dataset
from tests.conftest import home_in, write_toy_corpus

STARTS = ("xavier", "orthogonal", "identity", "identity × 1.5")


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> list[GradientCurve]:
    folder = tmp_path_factory.mktemp("gradients")
    pipeline = build_config(
        overrides=["sequences.mode=stream", "tokenizer.kind=word"], corpus=str(write_toy_corpus(folder / "toy"))
    )
    with home_in(folder) as home:
        dataset = prepare_dataset(home, pipeline)
    config = GradientProbeConfig(hidden_size=16, steps=20, rows=8, factor=1.5, trained_steps=3)
    found = measure_gradients(dataset, config, window_length=35)
    assert found == measure_gradients(dataset, config, window_length=35)
    return found


def test_every_variant_is_measured_before_and_after_its_steps(curves: list[GradientCurve]) -> None:
    assert [(curve.nonlinearity, curve.start, curve.trained_steps) for curve in curves] == [
        (kind, start, steps) for kind in ("tanh", "relu") for start in STARTS for steps in (0, 3)
    ]
    for curve in curves:
        assert [len(layer) for layer in curve.norms] == [21]
        assert curve.norms[0][0] > 0
    before, after = curves[:2]
    assert before.norms != after.norms


def test_relu_explodes_with_a_scaled_identity_and_vanishes_with_xavier(curves: list[GradientCurve]) -> None:
    left = {
        curve.start: curve.norms[0][20] / curve.norms[0][0]
        for curve in curves
        if curve.nonlinearity == "relu" and not curve.trained_steps
    }
    assert left["xavier"] < 0.01 < left["identity"] <= 1.5  # units that are off pass nothing back
    assert left["identity × 1.5"] == pytest.approx(1.5**20, rel=0.5)
