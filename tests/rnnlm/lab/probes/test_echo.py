"""The echo task says what it asks for, and networks remember as far as gradients reach."""

import pytest
import torch

from rnnlm.lab.probes.echo import echo_accuracy, echo_batch, echo_model, echo_score, measure_echo
from rnnlm.lab.probes.probe_config import EchoConfig


def test_the_target_stands_at_the_cue_and_is_the_first_symbol() -> None:
    inputs, targets = echo_batch(50, distance=3, symbols=4, generator=torch.Generator().manual_seed(0))
    assert inputs.shape == targets.shape == (50, 4)
    assert inputs[:, -1].unique().tolist() == [8]  # the cue: after the symbols 4 … 7
    assert sorted(inputs[:, :-1].unique().tolist()) == [4, 5, 6, 7]
    assert targets[:, :-1].unique().tolist() == [0]  # <pad>: nothing to predict
    assert torch.equal(targets[:, -1], inputs[:, 0])


def test_at_distance_one_the_symbol_stands_right_before_the_cue() -> None:
    inputs, targets = echo_batch(5, distance=1, symbols=4, generator=torch.Generator().manual_seed(0))
    assert inputs.shape == (5, 2)
    assert torch.equal(targets[:, 1], inputs[:, 0])


def test_a_network_that_was_not_trained_guesses() -> None:
    config = EchoConfig(symbols=4, hidden_size=16)
    model = echo_model(config, "tanh", "orthogonal")
    rows = echo_batch(2_000, distance=6, symbols=4, generator=torch.Generator().manual_seed(0))
    assert echo_accuracy(model, *rows) == pytest.approx(0.25, abs=0.1)


def test_a_symbol_a_few_steps_back_is_learnt() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=150, learning_rate=3e-3)
    assert echo_score(config, "tanh", "orthogonal", distance=3).accuracy == 1.0


@pytest.mark.slow
def test_the_identity_with_relu_remembers_longer_than_xavier() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=200)
    far = {start: echo_score(config, "relu", start, distance=20) for start in ("identity", "xavier")}
    assert far["identity"].accuracy > 0.9
    assert far["xavier"].accuracy < 0.7


def test_every_variant_is_measured_and_the_same_seed_gives_the_same() -> None:
    config = EchoConfig(distances=(1, 2), nonlinearities=("tanh",), training_steps=5, hidden_size=8)
    scores = measure_echo(config)
    assert scores == measure_echo(config)
    assert [(score.initialization, score.distance) for score in scores] == [
        (start, distance) for start in ("xavier", "orthogonal", "identity") for distance in (1, 2)
    ]
