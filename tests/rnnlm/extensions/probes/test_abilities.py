"""Networks learn the tasks that they can solve in theory, and do not learn the others."""

import pytest
import torch
from torch import Tensor

from rnnlm.config import ModelConfig, ModelKind
from rnnlm.extensions.probes.abilities import (
    DIAGONAL,
    chance,
    matched_model,
    mean_loss,
    measure_ability,
    network_names,
    second_half,
)
from rnnlm.extensions.probes.probe_config import AbilitiesConfig
from rnnlm.extensions.probes.probe_training import accuracy
from rnnlm.extensions.probes.synthetic_tasks import TASKS
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.models.parameter_count import count_parameters

QUICK = AbilitiesConfig(trained_length=10, lengths=(10, 80), parameters=8_000, training_steps=600, learning_rate=5e-3)


@pytest.mark.long
def test_an_lstm_generalizes_parity_to_long_rows() -> None:
    score = measure_ability(QUICK, "lstm", "parity", seed=0)
    assert min(score.accuracies) > 0.99
    assert score.steps < QUICK.training_steps  # Training ended before its last step, because the task was solved.
    assert score.steps % 200 == 0


@pytest.mark.slow
def test_a_diagonal_network_only_guesses_the_parity_of_long_rows() -> None:
    # After only 600 steps, rounding errors would decide whether the accuracy exceeds 0.6.
    config = QUICK.model_copy(update={"training_steps": 900})
    score = measure_ability(config, DIAGONAL, "parity", seed=0)
    short, long = score.accuracies
    assert short > 0.6  # On short rows, the network is better than chance.
    assert long == pytest.approx(0.5, abs=0.03)
    assert score.steps == config.training_steps


def last_states(model: LanguageModel, word: list[int], repeated: int) -> tuple[Tensor, Tensor]:
    """Return the states after `repeated` repetitions of the word, and after one more."""
    with torch.no_grad():
        _, before = model.hidden(torch.tensor([word * repeated]))
        _, after = model.hidden(torch.tensor([word]), before)
    return before, after


def random_weights(kind: ModelKind, seed: int, **settings: str) -> LanguageModel:
    """Return a model of three layers of 16 units with large random weights, so that every kind of dynamics occurs."""
    model = build_model(ModelConfig(kind=kind, hidden_size=16, layers=3, **settings), 8, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 1.5)
    return model


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_weights_networks_without_mixing_settle_on_a_repeated_word(seed: int) -> None:
    """The states of networks without mixing converge on a repeated word, whatever the weights are.

    Such networks cannot distinguish odd from even numbers of repetitions, as docs/explanation/abilities.md proves. With
    positive recurrent weights, a repeated token is enough for convergence. With negative weights, the state alternates,
    and converges on a repeated word of two tokens.
    """
    positive = random_weights("elman", seed, recurrence="diagonal")
    with torch.no_grad():
        for cell in positive.stack.cells:
            cell.get_parameter("U").abs_()
    cases = [(positive, [4]), (random_weights("elman", seed, recurrence="diagonal"), [4, 5])]
    cases += [(random_weights(kind, seed), [4]) for kind in ("min-gru", "min-lstm")]
    for model, word in cases:
        before, after = last_states(model, word, repeated=2_000)
        assert torch.allclose(before, after, rtol=0.01, atol=0.01)


def test_a_network_with_mixing_need_not_settle() -> None:
    """The state of a network with mixing need not converge. In h' = tanh(R h), R is twice a rotation by 90 degrees.

    This shows that the test above can fail.
    """
    model = build_model(ModelConfig(kind="elman", hidden_size=2), 8, seed=0)
    cell = model.stack.cells[0]
    with torch.no_grad():
        cell.get_parameter("U").copy_(torch.tensor([[0.0, 2.0], [-2.0, 0.0]]))
        cell.get_parameter("b").fill_(0.1)
    before, after = last_states(model, [4], repeated=2_000)
    assert not torch.allclose(before, after, rtol=0.1, atol=0.1)


def test_only_answers_in_the_second_half_of_a_row_count() -> None:
    targets = torch.tensor([[4, 5, 6, 7], [4, 0, 0, 4], [5, 5, 5, 5]])
    assert second_half(targets).tolist() == [[0, 0, 6, 7], [0, 0, 0, 4], [0, 0, 5, 5]]
    # The most frequent of the targets 6 7 4 5 5 is 5, which occurs twice.
    assert chance(second_half(targets)) == pytest.approx(2 / 5)


def test_accuracy_is_the_share_of_answers_and_loss_their_mean() -> None:
    model = build_model(ModelConfig(hidden_size=2, tie_embeddings=False, head_bias="zero"), 6, seed=0)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 3.0]))  # The model always predicts 5.
    inputs, targets = torch.full((2, 2), 4), torch.tensor([[5, 4], [0, 5]])
    assert accuracy(model, inputs, targets) == pytest.approx(2 / 3)
    # The sum has the tokens 1, 3, 4 and 5, because <pad> and <bos> are never predicted.
    normalizer = torch.tensor([0.0, 0.0, 0.0, 3.0]).logsumexp(0)
    # The mean of the logits of the targets 5, 4 and 5 is (3 + 0 + 3) / 3 = 2.
    assert mean_loss(model, inputs, targets) == pytest.approx(float(normalizer - 2), rel=1e-6)


def test_every_kind_gets_the_size_whose_parameters_are_nearest_to_the_budget() -> None:
    config, task = AbilitiesConfig(), TASKS["parity"]

    def count(settings: ModelConfig) -> int:
        return count_parameters(settings, task.vocabulary_size).total

    for network in network_names(config):
        settings = matched_model(config, network, task)
        difference = abs(count(settings) - config.parameters)
        assert difference / config.parameters < 0.2, network
        for step in (-8, 8):
            other = settings.model_copy(update={"hidden_size": settings.hidden_size + step})
            assert abs(count(other) - config.parameters) >= difference
        model = build_model(settings, task.vocabulary_size, seed=0)
        assert count(settings) == sum(parameter.numel() for parameter in model.parameters())
    assert matched_model(config, DIAGONAL, task).recurrence == "diagonal"
