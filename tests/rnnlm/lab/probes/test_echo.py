"""Networks remember a symbol as far as gradients reach."""

import pytest

from rnnlm.lab.probes.echo import echo_score, measure_echo
from rnnlm.lab.probes.probe_config import EchoConfig


def test_a_symbol_a_few_steps_back_is_learnt() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=150, learning_rate=3e-3)
    assert echo_score(config, "tanh", "orthogonal", distance=3).accuracy == 1.0


@pytest.mark.slow
def test_the_identity_with_relu_remembers_longer_than_xavier() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=200)
    far = {start: echo_score(config, "relu", start, distance=20) for start in ("identity", "xavier")}
    assert far["identity"].accuracy > 0.9
    assert far["xavier"].accuracy < 0.7


def test_every_variant_is_measured_with_reproducible_scores() -> None:
    config = EchoConfig(distances=(1, 2), nonlinearities=("tanh",), training_steps=5, hidden_size=8)
    scores = measure_echo(config)
    assert scores == measure_echo(config)
    assert all(score.accuracy < 0.5 for score in scores)  # chance is 1 / 8
    assert [(score.initialization, score.distance) for score in scores] == [
        (start, distance) for start in ("xavier", "orthogonal", "identity") for distance in (1, 2)
    ]
