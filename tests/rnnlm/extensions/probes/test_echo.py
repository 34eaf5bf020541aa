"""A network remembers a symbol if its gradients reach back to the symbol."""

import pytest

from rnnlm.extensions.probes.echo import echo_networks, echo_score, measure_echo
from rnnlm.extensions.probes.probe_config import EchoConfig
from rnnlm.extensions.probes.probe_records import EchoScore


def score_of(config: EchoConfig, distance: int, **changes: object) -> EchoScore:
    """Return the score of the first configured network with some settings changed."""
    network = next(echo_networks(config))
    return echo_score(config, network.model_copy(update=changes), distance)


def test_a_symbol_a_few_steps_back_is_learnt() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=150, learning_rate=3e-3)
    assert score_of(config, 3, nonlinearity="tanh", recurrent_initialization="orthogonal").accuracy == 1.0


def test_each_kind_has_one_network_and_elman_has_one_for_each_combination() -> None:
    kinds = ("lstm", "elman", "min-gru", "transformer")
    config = EchoConfig(kinds=kinds, distances=(2, 5), hidden_size=8, training_steps=2, initializations=("leaky",))
    scores = measure_echo(config)
    assert [(score.network, score.distance) for score in scores] == [
        (network, distance)
        for network in ("lstm", "tanh, leaky", "relu, leaky", "min-gru", "transformer")
        for distance in (2, 5)
    ]
    assert len({score.final_loss for score in scores}) == len(scores)


def test_a_feed_forward_network_does_not_remember_and_an_lstm_does() -> None:
    config = EchoConfig(kinds=("feed-forward", "lstm"), symbols=4, hidden_size=32, distances=(8,), training_steps=200)
    scores = measure_echo(config.model_copy(update={"learning_rate": 1e-2}))
    assert {score.network: score.accuracy > 0.9 for score in scores} == {"feed-forward": False, "lstm": True}


@pytest.mark.slow
def test_the_identity_with_relu_remembers_longer_than_xavier() -> None:
    config = EchoConfig(symbols=4, hidden_size=32, training_steps=200)
    far = {
        start: score_of(config, 20, nonlinearity="relu", recurrent_initialization=start)
        for start in ("identity", "xavier")
    }
    assert far["identity"].accuracy > 0.9
    assert far["xavier"].accuracy < 0.7
