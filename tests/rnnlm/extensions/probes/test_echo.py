"""A network remembers a symbol if its gradients reach back to the symbol."""

import pytest

from rnnlm.extensions.probes.echo import echo_score
from rnnlm.extensions.probes.probe_config import EchoConfig


def test_a_symbol_a_few_steps_back_is_learnt() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=150, learning_rate=3e-3)
    assert echo_score(config, "tanh", "orthogonal", distance=3).accuracy == 1.0


@pytest.mark.slow
def test_the_identity_with_relu_remembers_longer_than_xavier() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=200)
    far = {start: echo_score(config, "relu", start, distance=20) for start in ("identity", "xavier")}
    assert far["identity"].accuracy > 0.9
    assert far["xavier"].accuracy < 0.7
