"""Training returns to the last good checkpoint, or stops with advice, if the loss is NaN or explodes."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rnnlm.errors import TrainingError
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.divergence import DivergedError, DivergenceCheck
from rnnlm.training.history import Measurement
from rnnlm.training.training_loop import TrainingLoop
from tests.rnnlm.training.small_training_loop import batch, make_loop, network

STEPS = 20
RATE = 0.01


def diverging(
    folder: Path, bearable: float, factor: float = math.nan, retries: int = 0, every_seconds: float = 0.0
) -> tuple[TrainingLoop, list[Measurement]]:
    """Return a loop that diverges in step 7 while the learning rate exceeds `bearable`.

    The loss of this step is multiplied by `factor`.
    """
    measured: list[Measurement] = []

    def loss(model: LanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        exact = exact_cross_entropy(model, hidden, target_ids)
        return exact * factor if loop.step == 7 and loop.optimizer.param_groups[0]["lr"] > bearable else exact

    loop = make_loop(
        network(hidden_size=8),
        [batch([2, 4, 5, 6])] * STEPS,
        {"divergence.retries": retries},
        loss,
        record=measured.append,
        checkpoints=Checkpoints(folder, 2, every_seconds),
        loss_limit=10 * math.log(10),
    )
    return loop, measured


def rates(measured: list[Measurement]) -> list[tuple[int, int, float]]:
    """Return the attempt, step and learning rate of each measurement."""
    return [(one.attempt, one.step, one.metrics["learning_rate"]) for one in measured if one.kind == "training"]


def good_step(folder: Path) -> int:
    """Return the step of the newest checkpoint, and check that all its weights are finite."""
    good = Checkpoints(folder, 2, 1.0).load_newest()
    assert good is not None
    assert all(bool(value.isfinite().all()) for value in good["model"].values())
    return int(good["step"])


@pytest.mark.parametrize("factor", [math.nan, math.inf, 1e6])
def test_without_retries_divergence_ends_training_with_advice(tmp_path: Path, factor: float) -> None:
    loop, _ = diverging(tmp_path / "c", 0.0, factor)
    with pytest.raises(TrainingError, match=r"step 7: loss .*, gradient norm .*\n.*learning_rate") as caught:
        loop.run()
    assert len(str(caught.value).splitlines()) <= 3
    assert good_step(tmp_path / "c") == 7  # The last checkpoint was written before the step that diverged.


def test_a_rollback_continues_with_half_the_rate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop, measured = diverging(tmp_path / "c", 0.75 * RATE, retries=1)
    loop.run()
    assert loop.tokens == 3 * STEPS
    assert rates(measured) == [
        *((0, step, RATE) for step in range(1, 8)),
        *((1, step, RATE / 2) for step in range(7, STEPS + 1)),
    ]
    assert "rolls back to step 6 with half the learning rate (retry 1 of 1)" in caplog.text


def test_a_checkpoint_whose_weights_fail_is_not_used_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Training resumes from an earlier checkpoint if the first step after the last one diverges.

    The loss of a step shows the effect of the update before it, so the weights in the later checkpoint are already bad.
    """

    def loss(model: LanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        exact = exact_cross_entropy(model, hidden, target_ids)
        weights = model.head.weight.detach()
        if loop.step == 7:
            failing.append(weights.clone())
        return exact * math.nan if any(torch.equal(weights, bad) for bad in failing[:1]) else exact

    failing: list[Tensor] = []
    checkpoints = Checkpoints(tmp_path / "c", 2, 0.0)
    loop = make_loop(
        network(hidden_size=8), [batch([2, 4, 5, 6])] * STEPS, {"divergence.retries": 1}, loss, checkpoints=checkpoints
    )
    loop.run()
    assert len(failing) == 2  # In the second attempt, step 7 began with different weights.
    assert "rolls back to step 6 with half the learning rate" in caplog.text
    assert loop.step == STEPS


def test_each_retry_from_one_checkpoint_halves_the_rate(tmp_path: Path) -> None:
    loop, measured = diverging(tmp_path / "c", 0.3 * RATE, retries=5, every_seconds=1000.0)
    loop.run()
    # Steps 1 to 7 have the full rate. After the restart, they have half the rate.
    assert rates(measured)[7:] == [
        *((1, step, RATE / 2) for step in range(1, 8)),
        *((2, step, RATE / 4) for step in range(1, STEPS + 1)),
    ]


def test_training_ends_when_no_retry_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop, _ = diverging(tmp_path / "c", 0.0, retries=2)
    with pytest.raises(DivergedError, match="step 7"):
        loop.run()
    assert caplog.text.count("training rolls back") == 2


def test_a_nan_validation_is_divergence() -> None:
    with pytest.raises(DivergedError, match=f"step {STEPS}"):
        make_loop(network(), [batch([2, 4, 5])] * STEPS, perplexities={STEPS: math.nan}).run()


def test_a_checkpoint_never_holds_a_nan_weight(tmp_path: Path) -> None:
    def poison(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
        if loop.step == 7:
            # The loss does not depend on the bias of <pad>, so only the check of the weights finds this.
            model.head.bias.data[0] = math.nan
        return exact_cross_entropy(model, hidden, targets)

    checkpoints = Checkpoints(tmp_path / "c", 2, 0.0)
    loop = make_loop(network(), [batch([2, 4, 5])] * STEPS, loss=poison, checkpoints=checkpoints)
    with pytest.raises(DivergedError):
        loop.run()
    assert good_step(tmp_path / "c") == 7


def test_the_first_bad_step_is_named_without_a_wait_per_step() -> None:
    divergence = DivergenceCheck(loss_limit=10.0)
    for step, loss in enumerate([1.0, 2.0, 11.0, math.nan, 1.0]):
        divergence.add(step, torch.tensor(loss), torch.tensor(0.5))
    with pytest.raises(DivergedError, match="step 2: loss 11.0, gradient norm 0.5"):
        divergence.check()
    divergence.check()  # The second check raises no error, because this step was already checked.
