"""Regularisers in the step and in the loop; each expected value by hand."""

from pathlib import Path

import pytest
import torch
from rnnlm.training.regularizers import make_regularizers

from rnnlm.config import OptimizerConfig
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.dropout import Dropout
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model, load_model, save_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.optimizer_step import BatchLoss, Updater, take_step
from rnnlm.training.optimizers import make_optimizer
from tests.configs import plain_model, plain_training

FIRST, SECOND = torch.tensor([[4, 5, 6, 7], [7, 8, 9, 4]]), torch.tensor([[7, 4, 5, 6], [4, 10, 11, 3]])


def network(**settings: object) -> LanguageModel:
    config = plain_model({"hidden_size": 24, "head_bias": "zero"} | settings)
    return build_model(config, 12, seed=0).train()


def window(ids: torch.Tensor, carries_state: bool = False) -> Batch:
    return Batch(ids[:, :-1], ids[:, 1:], carries_state, ids[:, 1:].numel())


def gradients(model: LanguageModel) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_a_windows_gradient_stops_at_its_first_state() -> None:
    """Truncated back-propagation through time: the second window knows the first by numbers alone."""
    model = network(layers=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # weights stay, so that both ways can be compared
    generator = torch.Generator()
    updater = Updater(BatchLoss(model, exact_cross_entropy), optimizer, 1e9)
    state = take_step(updater, window(FIRST), None, generator).state
    take_step(updater, window(SECOND, True), state, generator)
    ours = gradients(model)
    model.zero_grad()
    hidden, _ = model.hidden(SECOND[:, :-1], torch.from_numpy(state.detach().numpy().copy()))
    exact_cross_entropy(model, hidden, SECOND[:, 1:]).backward()
    for gradient, by_hand in zip(ours, gradients(model), strict=True):
        torch.testing.assert_close(gradient, by_hand)
    assert state.abs().sum() > 0


def test_weight_decay_touches_matrices_alone() -> None:
    """With zero gradients a step leaves vectors and multiplies matrices by 1 - rate * decay."""
    model = network(layers=2)
    model.head.bias.data.fill_(0.7)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = make_optimizer(model, OptimizerConfig(learning_rate=0.1, weight_decay=0.3))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.detach(), before[name] * (0.97 if value.ndim == 2 else 1.0))


def test_tied_embeddings_share_their_gradient_and_stay_tied_after_saving(tmp_path: Path) -> None:
    """The one matrix gets what the two of an untied model get."""
    config = plain_model({"hidden_size": 24, "head_bias": "zero", "tie_embeddings": True})
    built = build_model(config, 12, seed=0)
    tied, untied = built, network()
    untied.load_state_dict(tied.state_dict())
    for model in (tied, untied):
        hidden, _ = model.hidden(FIRST[:, :-1])
        exact_cross_entropy(model, hidden, FIRST[:, 1:]).backward()
    embedding, head = untied.embedding.weight.grad, untied.head.weight.grad
    assert embedding is not None
    assert head is not None
    assert tied.head.weight.grad is not None
    torch.testing.assert_close(tied.head.weight.grad, embedding + head)
    save_model(built, tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.head.weight is loaded.embedding.weight
    assert torch.equal(loaded.head.weight, tied.head.weight)


@pytest.mark.parametrize("kinds", [Dropout(words=0.3, inputs=0.3, layers=0.3, outputs=0.3, recurrent=0.5)])
def test_a_step_under_dropout_is_decided_by_its_generator(kinds: Dropout) -> None:
    results = []
    for seed in (1, 1, 2):
        model = network(layers=2)
        optimizer = make_optimizer(model, OptimizerConfig())
        generator = torch.Generator().manual_seed(seed)
        take_step(Updater(BatchLoss(model, exact_cross_entropy, kinds), optimizer, 1.0), window(FIRST), None, generator)
        results.append(model.stack.cells[0].W.detach().clone())
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_sampled_loss_and_rows_of_the_optimizer_go_on_under_dropout() -> None:
    """Rows that neither the batch nor the sample names stay as they are, bit by bit."""
    model = network(layers=2)
    model.embedding.sparse = True
    before = model.embedding.weight.detach().clone()
    optimizer = make_optimizer(model, OptimizerConfig())
    loss = SampledCrossEntropy(torch.ones(12).numpy(), 3)
    kinds = Dropout(words=0.3, inputs=0.3, layers=0.3, outputs=0.3, recurrent=0.5)
    generator = torch.Generator().manual_seed(0)
    taken = take_step(Updater(BatchLoss(model, loss, kinds), optimizer, 1.0), window(FIRST), None, generator)
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad.is_sparse
    assert torch.isfinite(taken.loss)
    unnamed = [2, 3, 10, 11]  # FIRST reads 4 … 9
    assert torch.equal(model.embedding.weight[unnamed], before[unnamed])
    assert not torch.equal(model.embedding.weight, before)


def test_a_configuration_becomes_regularizers_and_the_default_is_none() -> None:
    model = network()
    default = make_regularizers(model, plain_training(), 100)
    assert default.dropout.is_off
    assert default.averaging is None
    assert default.early_stopping.limit is None
    settings: dict[str, object] = {
        "dropout.words": 0.1,
        "dropout.inputs": 0.2,
        "dropout.layers": 0.3,
        "dropout.outputs": 0.4,
    }
    settings |= {
        "dropout.outputs": 0.4,
        "dropout.recurrent": 0.5,
        "averaging.kind": "mean",
        "validation.early_stopping_patience": 2,
    }
    made = make_regularizers(model, plain_training(settings), 100)
    assert made.dropout == Dropout(0.1, 0.2, 0.3, 0.4, 0.5)
    assert made.averaging is not None
    assert made.averaging.start_step == 50
    assert made.early_stopping.limit == 2
