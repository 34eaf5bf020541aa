"""A training step that is replayed from a CUDA graph has the same results as an ordinary one.

On a CPU, a replay computes the step again from the buffers that a GPU would read.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rnnlm.config import OptimizerConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.dropout import Dropout
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training import captured_step
from rnnlm.training.captured_step import CapturedUpdater, make_updater, rounded_width
from rnnlm.training.optimizer_step import BatchLoss, MicroBatch, Step, Updater, take_step
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.seeding import step_generator
from tests.configs import plain_model
from tests.rnnlm.losses.loss_cases import with_one_target_and_several, with_targets

CLASSES = 40
RATES = (2.0**-9, 2.0**-8, 2.0**-10)  # Learning rates that are the same in float32 and float64.
STEP_LOSSES: dict[str, Loss] = {
    "exact": ChunkedCrossEntropy(),
    "sampled": SampledCrossEntropy(np.r_[[0, 0, 0], np.ones(CLASSES - 3)], 12),
}
DROPOUT_OF_ALL_KINDS = Dropout(words=0.1, inputs=0.2, layers=0.2, outputs=0.2, recurrent=0.3)


def stream(target_count: int = 1) -> list[Batch]:
    """Return five windows over seven lanes. The third window is short, and the fourth window begins an epoch."""
    generator = np.random.default_rng(0)
    batches = []
    for width, carries_state in ((6, False), (6, True), (4, True), (6, False), (6, True)):
        ids = torch.from_numpy(generator.integers(3, CLASSES, (7, width + 1)))
        targets = with_targets(ids[:, 1:], target_count)
        batches.append(Batch(ids[:, :-1], targets, carries_state, 7 * width))
    return batches


def sentences() -> list[Batch]:
    """Return batches of many widths with rows of different lengths. The last batch has fewer rows."""
    generator = np.random.default_rng(0)
    batches = []
    for rows, width in ((5, 3), (5, 9), (5, 4), (5, 33), (5, 11), (3, 3)):
        ids = torch.from_numpy(generator.integers(3, CLASSES, (rows, width + 1)))
        ids[1, width - 1 :] = 0
        batches.append(Batch(ids[:, :-1], ids[:, 1:].contiguous(), False, int(ids[:, 1:].ne(0).sum())))
    return batches


def updater_of(kind: type[Updater], loss: Loss, dropout: Dropout, widths_vary: bool = False) -> Updater:
    settings = {"hidden_size": 8, "layers": 2, "residual": True, "head_bias": "zero", "tie_embeddings": True}
    model = build_model(plain_model(settings), CLASSES, seed=0).train()
    optimizer = make_optimizer(model, OptimizerConfig())
    more = {"widths_vary": widths_vary} if kind is CapturedUpdater else {}
    return kind(BatchLoss(model, loss, dropout), optimizer, 0.5, mean_tokens=30.0, **more)


def taken_steps(updater: Updater, batches: list[Batch], accumulation: int = 1) -> tuple[list[Step], list[Tensor]]:
    """Return the results of all steps, and the weights and gradients after the last step."""
    steps, state = [], None
    for number, batch in enumerate(batches):
        for group in updater.optimizer.param_groups:
            group["lr"] = RATES[number % len(RATES)]
        steps.append(take_step(updater, batch, state, step_generator(0, number), accumulation))
        state = steps[-1].state
    parameters = list(updater.batch_loss.parameters())
    gradients = [one.grad for one in parameters if one.grad is not None]
    return steps, [*(one.detach() for one in parameters), *gradients]


@with_one_target_and_several
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("dropout", [Dropout(), DROPOUT_OF_ALL_KINDS], ids=["plain", "dropout"])
@pytest.mark.parametrize("name", list(STEP_LOSSES))
def test_replayed_steps_are_the_steps_bit_by_bit(
    name: str, dropout: Dropout, accumulation: int, target_count: int
) -> None:
    results = []
    for kind in (Updater, CapturedUpdater):
        updater = updater_of(kind, STEP_LOSSES[name], dropout)
        results.append(taken_steps(updater, stream(target_count), accumulation))
    (expected, weights), (found, captured_weights) = results
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.loss, other.loss)
        assert torch.equal(one.norm, other.norm)
        assert torch.equal(one.state, other.state)
    assert all(map(torch.equal, weights, captured_weights))


def test_a_shape_is_recorded_once_and_the_rate_stays_a_number() -> None:
    updater = updater_of(CapturedUpdater, STEP_LOSSES["exact"], Dropout())
    taken_steps(updater, stream())
    # Steps are recorded for full windows and for the short window. A missing state is replaced by zeros.
    assert updater.recorded_shapes == 2
    assert [group["lr"] for group in updater.optimizer.param_groups] == [RATES[1]] * 2


def test_sentences_are_padded_to_few_widths_with_equal_results() -> None:
    plain = updater_of(Updater, STEP_LOSSES["exact"], DROPOUT_OF_ALL_KINDS)
    padded = updater_of(CapturedUpdater, STEP_LOSSES["exact"], DROPOUT_OF_ALL_KINDS, widths_vary=True)
    (expected, weights), (found, padded_weights) = (taken_steps(one, sentences()) for one in (plain, padded))
    assert padded.recorded_shapes == 4  # The recorded shapes are 5 rows of 4, 12 and 48 tokens, and 3 rows of 4 tokens.
    torch.testing.assert_close([one.loss for one in found], [one.loss for one in expected], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(padded_weights, weights, rtol=1e-3, atol=1e-5)


def test_widths_grow_by_steps() -> None:
    assert [rounded_width(width) for width in (1, 4, 5, 32, 33, 128, 129, 200)] == [4, 4, 8, 32, 48, 128, 192, 256]


def test_too_many_shapes_are_trained_uncaptured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_step, "MOST_SHAPES", 1)
    updater = updater_of(CapturedUpdater, STEP_LOSSES["exact"], Dropout())
    _, weights = taken_steps(updater, stream())
    assert updater.recorded_shapes == 1
    _, expected = taken_steps(updater_of(Updater, STEP_LOSSES["exact"], Dropout()), stream())
    assert all(map(torch.equal, weights, expected))


def test_a_step_that_cannot_be_recorded_is_taken_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(updater: CapturedUpdater, buffers: list[MicroBatch]) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(CapturedUpdater, "repeated", refuse)
    updater = updater_of(CapturedUpdater, STEP_LOSSES["exact"], Dropout())
    _, weights = taken_steps(updater, stream())
    _, expected = taken_steps(updater_of(Updater, STEP_LOSSES["exact"], Dropout()), stream())
    assert all(map(torch.equal, weights, expected))
    assert caplog.text.count("capturing them as CUDA graphs failed: operation not permitted") == 1


def test_a_loaded_optimizer_state_is_what_later_steps_change() -> None:
    """After a rollback, steps change the tensors of the restored optimizer state, not those of the recording."""
    batches = stream()
    results = []
    for kind in (Updater, CapturedUpdater):
        updater = updater_of(kind, STEP_LOSSES["exact"], Dropout())
        taken_steps(updater, batches[:2])
        saved = {name: value.clone() for name, value in updater.batch_loss.state_dict().items()}
        saved_optimizer = updater_of(Updater, STEP_LOSSES["exact"], Dropout()).optimizer.state_dict()
        saved_optimizer["state"] = {
            number: {name: value.clone() for name, value in state.items()}
            for number, state in updater.optimizer.state_dict()["state"].items()
        }
        taken_steps(updater, batches[2:])
        updater.batch_loss.load_state_dict(saved)
        updater.optimizer.load_state_dict(saved_optimizer)
        results.append(taken_steps(updater, batches[3:])[1])
    assert all(map(torch.equal, *results))


def test_each_shape_has_gradients_of_its_own_step() -> None:
    updater = updater_of(CapturedUpdater, STEP_LOSSES["exact"], Dropout())
    batches = stream()
    taken_steps(updater, batches[:3])
    steps, values = taken_steps(updater, [replace(batches[1], carries_state=False)])
    gradients = values[len(values) // 2 :]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in gradients]))
    assert float(norm) == pytest.approx(min(0.5, float(steps[0].norm)), rel=1e-4)


def test_a_cpu_takes_each_step_plainly() -> None:
    plain = updater_of(Updater, STEP_LOSSES["exact"], Dropout())
    assert type(make_updater(plain.batch_loss, plain.optimizer, None)) is Updater
