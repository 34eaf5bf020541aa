"""A step in micro-batches is the step of the whole batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rnnlm.config import OptimizerConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss, exact_cross_entropy
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.dropout import Dropout
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.optimizer_step import NO_DROPOUT, BatchLoss, Step, Updater, take_step
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.seeding import step_generator
from tests.configs import plain_model

VOCABULARY = 40
LOSSES: dict[str, Loss] = {
    "exact": exact_cross_entropy,
    "chunked": ChunkedCrossEntropy(torch.bfloat16),
    "sampled": SampledCrossEntropy(np.r_[[0, 0, 0], np.ones(VOCABULARY - 3)], 12, torch.float64),
}


def network(sparse: bool = False) -> LanguageModel:
    config = plain_model({"hidden_size": 8, "layers": 2, "residual": True, "head_bias": "zero"})
    model = build_model(config, VOCABULARY, seed=0).double()
    model.embedding.sparse = sparse
    return model


def windows() -> list[Batch]:
    """Two windows over seven lanes, the rows of the first of unequal length, as sentences have it."""
    ids = torch.from_numpy(np.random.default_rng(0).integers(3, VOCABULARY, (7, 13)))
    for row in range(7):
        ids[row, 6 - row // 2 : 7] = 0  # padding
    first = Batch(ids[:, :6], ids[:, 1:7], False, int(ids[:, 1:7].ne(0).sum()))
    return [first, Batch(ids[:, 7:12], ids[:, 8:], True, int(ids[:, 8:].ne(0).sum()))]


def steps(
    loss: Loss, accumulation: int, sparse: bool = False, dropout: Dropout = NO_DROPOUT, compiled: bool = False
) -> tuple[list[Step], list[Tensor]]:
    model = network(sparse)
    optimizer = make_optimizer(model, OptimizerConfig())
    batch_loss = BatchLoss(model, loss, dropout)
    if compiled:
        batch_loss.compile(backend="aot_eager")  # traced and differentiated as for a GPU, without a compiler of kernels
    updater = Updater(batch_loss, optimizer, 0.5)
    taken: list[Step] = []
    for number, batch in enumerate(windows()):
        state = taken[-1].state if taken else None
        taken.append(take_step(updater, batch, state, step_generator(0, number), accumulation))
    return taken, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("accumulation", [2, 3, 7, 50])
def test_micro_batches_update_as_the_whole_batch_does(name: str, accumulation: int) -> None:
    near = {"rtol": 1e-2, "atol": 1e-3} if name == "chunked" else {"rtol": 1e-9, "atol": 1e-11}  # bfloat16 inside
    whole, expected = steps(LOSSES[name], 1)
    apart, got = steps(LOSSES[name], accumulation)
    for one, many in zip(whole, apart, strict=True):
        torch.testing.assert_close(many.loss, one.loss, **near)
        torch.testing.assert_close(many.norm, one.norm, **near)
        torch.testing.assert_close(many.state, one.state, **near)
    if name != "chunked":  # AdamW makes steps of full size out of differences in rounding
        torch.testing.assert_close(got, expected, **near)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_weighted_batches_have_the_gradient_of_the_mean_over_all_tokens(accumulation: int) -> None:
    """Two batches of 35 and 42 tokens; without weights each token of the first would count more."""
    batches = [replace(batch, carries_state=False) for batch in windows()]
    total = sum(batch.predicted_tokens for batch in batches)
    gradients, losses = [], []
    for batch in batches:
        model = network()
        updater = Updater(BatchLoss(model, exact_cross_entropy), make_optimizer(model, OptimizerConfig()), None)
        updater.mean_tokens = total / 2
        losses.append(float(take_step(updater, batch, None, step_generator(0, 0), accumulation).loss))
        gradients.append([parameter.grad for parameter in model.parameters()])
    model = network()
    means = [exact_cross_entropy(model, model.hidden(batch.input_ids)[0], batch.target_ids) for batch in batches]
    (sum(mean * batch.predicted_tokens for mean, batch in zip(means, batches, strict=True)) / total).backward()
    for first, second, parameter in zip(*gradients, model.parameters(), strict=True):
        torch.testing.assert_close((first + second) / 2, parameter.grad, rtol=1e-6, atol=1e-9)
    assert losses == pytest.approx([float(mean.detach()) for mean in means])  # what is logged is the mean of each batch


def test_sparse_gradients_are_added_up_too() -> None:
    whole, expected = steps(LOSSES["sampled"], 1, sparse=True)
    apart, got = steps(LOSSES["sampled"], 3, sparse=True)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_rows_keep_their_masks_in_whatever_part_they_are() -> None:
    dropout = Dropout(words=0.3, inputs=0.3, layers=0.3, outputs=0.3, recurrent=0.5)
    whole, expected = steps(LOSSES["sampled"], 1, dropout=dropout)
    apart, got = steps(LOSSES["sampled"], 3, dropout=dropout)
    torch.testing.assert_close([step.loss for step in apart], [step.loss for step in whole])
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("name", ["exact", "sampled"])
def test_a_compiled_step_is_the_step(name: str) -> None:
    dropout = Dropout(words=0.3, inputs=0.3, layers=0.3, outputs=0.3, recurrent=0.5)
    plain, expected = steps(LOSSES[name], 1, dropout=dropout)
    compiled, got = steps(LOSSES[name], 1, dropout=dropout, compiled=True)
    for one, other in zip(plain, compiled, strict=True):
        torch.testing.assert_close((other.loss, other.state), (one.loss, one.state), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_no_rows_give_zero_gradients_and_an_empty_state() -> None:
    model = network()
    none = torch.zeros(0, 5, dtype=torch.int64)
    loss, state = BatchLoss(model, exact_cross_entropy)(none, none, None)
    loss.backward()
    assert (loss.item(), tuple(state.shape)) == (0.0, (0, 2, 8))
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("kind", "units", "layers", "rate"),
    [
        ("elman", 64, 1, 0.004),
        ("elman", 256, 2, 0.004),
        ("elman", 1_024, 1, 0.004 * 0.25**0.75),
        ("elman", 4_096, 2, 0.0005),
        ("lstm", 1_024, 2, 0.004),
    ],
)
def test_the_rate_follows_the_width_of_an_elman_network(kind: str, units: int, layers: int, rate: float) -> None:
    model = build_model(plain_model({"kind": kind, "hidden_size": units, "layers": layers}), 10, seed=0)
    assert {group["lr"] for group in make_optimizer(model, OptimizerConfig()).param_groups} == {rate}
    given = make_optimizer(model, OptimizerConfig(learning_rate=0.3))
    assert {group["lr"] for group in given.param_groups} == {0.3}
