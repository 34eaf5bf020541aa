"""A loss that is no number or explodes stops training with advice, or takes it back to the last good checkpoint."""

import logging
import math
from pathlib import Path

import pytest
import torch
from rnnlm.training.checkpointing.divergence import DivergedError, DivergenceMonitor
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.loop import Outcome, Training, TrainingPlan
from torch import Tensor

from rnnlm.errors import TrainingError
from rnnlm.losses.loss import Loss, exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.history import Event, Measurement
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.schedules import Schedule
from tests.configs import plain_model, plain_training

STEPS = 20
RATE = 0.01


class Broken:
    """The exact loss, multiplied by `worth` in step `step` while the learning rate is above `bearable`."""

    def __init__(self, state: TrainingState, step: int, bearable: float, worth: float = math.nan) -> None:
        self.state, self.step, self.bearable, self.worth = state, step, bearable, worth

    def __call__(self, model: LanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        loss = exact_cross_entropy(model, hidden, target_ids)
        fatal = self.state.step == self.step and self.state.optimizer.param_groups[0]["lr"] > self.bearable
        return loss * self.worth if fatal else loss


def fresh_state() -> TrainingState:
    model = build_model(plain_model({"hidden_size": 8, "head_bias": "zero"}), 12, seed=0)
    config = plain_training(
        {"optimizer.learning_rate": RATE, "schedule.kind": "constant", "schedule.warmup_share": 0.0}
    )
    optimizer = make_optimizer(model, config.optimizer)
    return TrainingState(model, optimizer, Schedule(optimizer, config.schedule, STEPS))


def run(
    state: TrainingState,
    loss: Loss,
    retries: int,
    folder: Path,
    events: list[Event],
    every_seconds: float = 0.0,
    perplexity: float = 5.0,
) -> Outcome:
    ids = torch.tensor([[2, 4, 5, 6]])
    batches = [Batch(ids[:, :-1], ids[:, 1:], False, 3)] * STEPS
    config = plain_training({"optimizer.clip_norm": 1.0, "divergence.retries": retries})
    plan = TrainingPlan(config, STEPS, frozenset(), 10.0, loss_limit=10 * math.log(10))
    checkpoints = Checkpoints(folder, 2, every_seconds)
    return Training(
        state, lambda first: batches[first:], loss, plan, lambda step: perplexity, events.append, checkpoints
    ).run()


def rates(events: list[Event]) -> list[tuple[int, int, float]]:
    """(attempt, step, learning rate) as measured."""
    measured = [event for event in events if isinstance(event, Measurement) and event.kind == "training"]
    return [(event.attempt, event.step, event.metrics["learning_rate"]) for event in measured]


@pytest.mark.parametrize("worth", [math.nan, math.inf, 1e6])
def test_without_retries_it_stops_with_step_loss_norm_and_advice(tmp_path: Path, worth: float) -> None:
    state = fresh_state()
    with pytest.raises(TrainingError, match=r"step 7: loss .*, gradient norm .*\n.*learning_rate") as caught:
        run(state, Broken(state, 7, 0.0, worth), 0, tmp_path / "c", [])
    assert len(str(caught.value).splitlines()) <= 3
    good = Checkpoints(tmp_path / "c", 2, 1.0).load_newest()
    assert good is not None
    assert good["step"] == 7  # before the step that failed, and every number in it finite
    assert all(bool(value.isfinite().all()) for value in good["model"].values())


def test_it_goes_back_and_on_with_half_the_rate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state, events = fresh_state(), list[Event]()
    outcome = run(state, Broken(state, 7, 0.75 * RATE), 1, tmp_path / "c", events)
    assert outcome.trained_tokens == 3 * STEPS
    assert rates(events) == [
        *((0, step, RATE) for step in range(1, 8)),
        *((1, step, RATE / 2) for step in range(8, STEPS + 1)),
    ]
    assert "rolls back to step 7 with half the learning rate (retry 1 of 1)" in caplog.text


def test_each_retry_halves_the_rate_again_also_from_the_same_checkpoint(tmp_path: Path) -> None:
    state, events = fresh_state(), list[Event]()
    run(state, Broken(state, 7, 0.3 * RATE), 5, tmp_path / "c", events, every_seconds=1000.0)
    assert rates(events)[7:] == [  # steps 1 to 7 once at the full rate, then from the start
        *((1, step, RATE / 2) for step in range(1, 8)),
        *((2, step, RATE / 4) for step in range(1, STEPS + 1)),
    ]


def test_when_no_retry_is_left_it_stops(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = fresh_state()
    with pytest.raises(DivergedError, match="step 7"):
        run(state, Broken(state, 7, 0.0), 2, tmp_path / "c", [])
    assert caplog.text.count("training rolls back") == 2


def test_a_validation_that_is_no_number_is_divergence(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=f"step {STEPS}"):
        run(fresh_state(), exact_cross_entropy, 0, tmp_path / "c", [], perplexity=math.nan)


def test_a_checkpoint_never_holds_a_weight_that_is_no_number(tmp_path: Path) -> None:
    state = fresh_state()

    def poison(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
        if state.step == 7:
            state.model.head.bias.data[0] = math.nan  # of <pad>: the loss, which never sees it, stays a number
        return exact_cross_entropy(model, hidden, targets)

    with pytest.raises(DivergedError):
        run(state, poison, 0, tmp_path / "c", [])
    good = Checkpoints(tmp_path / "c", 2, 1.0).load_newest()
    assert good is not None
    assert good["step"] == 7


def test_no_step_waits_for_the_device(caplog: pytest.LogCaptureFixture) -> None:
    """The watch only keeps references, and names the first bad step when it is asked."""
    caplog.set_level(logging.INFO)
    monitor = DivergenceMonitor(loss_limit=10.0)
    for step, loss in enumerate([1.0, 2.0, 11.0, math.nan, 1.0]):
        monitor.note(step, torch.tensor(loss), torch.tensor(0.5))
    with pytest.raises(DivergedError, match="step 2: loss 11.0, gradient norm 0.5"):
        monitor.check()
    monitor.check()  # seen once
