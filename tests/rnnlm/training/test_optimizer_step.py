"""A step in micro-batches has the same result as a step with the whole batch."""

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
from tests.rnnlm.losses.loss_cases import TEXT_SHARE, with_one_target_and_several, with_targets

VOCABULARY = 40
LOSSES: dict[str, Loss] = {
    "exact": exact_cross_entropy,
    "chunked": ChunkedCrossEntropy(torch.bfloat16, TEXT_SHARE),
    "sampled": SampledCrossEntropy(np.r_[[0, 0, 0], np.ones(VOCABULARY - 3)], 12, torch.float64, TEXT_SHARE),
}


def network(sparse: bool = False) -> LanguageModel:
    config = plain_model({"hidden_size": 8, "layers": 2, "residual": True, "head_bias": "zero"})
    model = build_model(config, VOCABULARY, seed=0).double()
    model.embedding.sparse = sparse
    return model


def windows(target_count: int = 1) -> list[Batch]:
    """Return two windows over seven lanes.

    In the first window, the rows have different lengths, as in sentence mode.
    """
    ids = torch.from_numpy(np.random.default_rng(0).integers(3, VOCABULARY, (7, 13)))
    for row in range(7):
        ids[row, 6 - row // 2 : 7] = 0  # The rest of the row is padding.
    first = Batch(ids[:, :6], ids[:, 1:7], False, int(ids[:, 1:7].ne(0).sum()))
    both = [first, Batch(ids[:, 7:12], ids[:, 8:], True, int(ids[:, 8:].ne(0).sum()))]
    return [replace(batch, target_ids=with_targets(batch.target_ids, target_count)) for batch in both]


def steps(
    loss: Loss,
    accumulation: int,
    sparse: bool = False,
    dropout: Dropout = NO_DROPOUT,
    compiled: bool = False,
    target_count: int = 1,
) -> tuple[list[Step], list[Tensor]]:
    model = network(sparse)
    optimizer = make_optimizer(model, OptimizerConfig())
    batch_loss = BatchLoss(model, loss, dropout)
    if compiled:
        # This backend traces and differentiates in the same way as on a GPU, but needs no compiler for kernels.
        batch_loss.compile(backend="aot_eager")
    updater = Updater(batch_loss, optimizer, 0.5)
    taken: list[Step] = []
    for number, batch in enumerate(windows(target_count)):
        state = taken[-1].state if taken else None
        taken.append(take_step(updater, batch, state, step_generator(0, number), accumulation))
    return taken, [parameter.detach() for parameter in model.parameters()]


EVERY_DROPOUT = Dropout(words=0.3, inputs=0.3, layers=0.3, outputs=0.3, recurrent=0.5)


@pytest.mark.parametrize(
    ("name", "accumulation", "sparse", "dropout"),
    [
        *((name, accumulation, False, NO_DROPOUT) for name in LOSSES for accumulation in (2, 3, 7, 50)),
        ("sampled", 3, True, NO_DROPOUT),
        ("sampled", 3, False, EVERY_DROPOUT),  # Each row has the same dropout masks in any micro-batch.
    ],
)
def test_micro_batches_update_as_the_whole_batch_does(
    name: str, accumulation: int, sparse: bool, dropout: Dropout
) -> None:
    # The chunked loss uses bfloat16.
    near = {"rtol": 1e-2, "atol": 1e-3} if name == "chunked" else {"rtol": 1e-9, "atol": 1e-11}
    whole, expected = steps(LOSSES[name], 1, sparse, dropout)
    apart, got = steps(LOSSES[name], accumulation, sparse, dropout)
    for one, many in zip(whole, apart, strict=True):
        torch.testing.assert_close(many.loss, one.loss, **near)
        torch.testing.assert_close(many.norm, one.norm, **near)
        torch.testing.assert_close(many.state, one.state, **near)
    # The weights after a bfloat16 step are not compared, because AdamW turns rounding errors into full steps.
    if name != "chunked":
        torch.testing.assert_close(got, expected, **near)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_weighted_batches_have_the_gradient_of_the_mean_over_all_tokens(accumulation: int) -> None:
    """The gradient of weighted batches is the gradient of the mean over all their tokens.

    The batches have 35 and 42 tokens. Without weighting, the tokens of the first batch would have a larger weight.
    """
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
    # The logged loss of each batch is its mean, without the weight.
    assert losses == pytest.approx([float(mean.detach()) for mean in means])


@pytest.mark.long
@with_one_target_and_several
@pytest.mark.parametrize(
    "loss", [ChunkedCrossEntropy(torch.float64, TEXT_SHARE), LOSSES["sampled"]], ids=["chunked", "sampled"]
)
def test_a_compiled_step_equals_the_plain_step(loss: Loss, target_count: int) -> None:
    plain, expected = steps(loss, 1, dropout=EVERY_DROPOUT, target_count=target_count)
    compiled, got = steps(loss, 1, dropout=EVERY_DROPOUT, compiled=True, target_count=target_count)
    for one, other in zip(plain, compiled, strict=True):
        torch.testing.assert_close((other.loss, other.state), (one.loss, one.state), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_a_batch_without_rows_gives_zero_gradients_and_an_empty_state() -> None:
    model = network()
    none = torch.zeros(0, 5, dtype=torch.int64)
    loss, state = BatchLoss(model, exact_cross_entropy)(none, none, None)
    loss.backward()
    assert (loss.item(), tuple(state.shape)) == (0.0, (0, 2, 8))
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


def test_the_gradient_stops_at_the_first_state_of_a_window() -> None:
    """The gradient of a window does not reach the window before it (truncated backpropagation through time)."""
    model, (first, second) = network(), windows()
    frozen = torch.optim.SGD(model.parameters(), lr=0.0)
    updater = Updater(BatchLoss(model, exact_cross_entropy), frozen, None)
    state = take_step(updater, first, None, step_generator(0, 0)).state
    take_step(updater, second, state, step_generator(0, 1))
    ours = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    hidden, _ = model.hidden(second.input_ids, torch.from_numpy(state.numpy().copy()))
    exact_cross_entropy(model, hidden, second.target_ids).backward()
    torch.testing.assert_close(ours, [parameter.grad for parameter in model.parameters()])
    assert state.abs().sum() > 0


def test_rows_outside_batch_and_sample_stay_bit_by_bit() -> None:
    """Rows of tokens that are neither in the batch nor in the sample do not change with the sampled loss.

    The step uses sparse gradients and dropout.
    """
    model = network(sparse=True)
    before = model.embedding.weight.detach().clone()
    sampled = SampledCrossEntropy(np.r_[np.ones(10), np.zeros(VOCABULARY - 10)], 3, torch.float64)
    updater = Updater(BatchLoss(model.train(), sampled, EVERY_DROPOUT), make_optimizer(model, OptimizerConfig()), 1.0)
    take_step(updater, windows()[0], None, step_generator(0, 0))
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad.is_sparse
    others = sorted(set(range(VOCABULARY)) - set(windows()[0].input_ids.unique().tolist()))
    assert torch.equal(model.embedding.weight[others], before[others])
    assert not torch.equal(model.embedding.weight, before)
