"""The schedules' learning rates and the counts of Patience agree with a calculation by hand."""

import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from rnnlm.training.schedules import RateFactor, Schedule
from tests.configs import plain_training

PLATEAU = {
    "schedule.kind": "plateau",
    "schedule.plateau_factor": 0.5,
    "schedule.plateau_patience": 2,
    "schedule.warmup_share": 0.2,
    "optimizer.learning_rate": 0.8,
    "validation.evaluations": 9,
}


def schedule(**settings: Any) -> Schedule:
    """Return a schedule of 10 steps with a peak rate of 0.8. `settings` are those of training.schedule."""
    config = plain_training(PLATEAU | {f"schedule.{name}": value for name, value in settings.items()})
    return Schedule(torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.8), config.schedule, 10)


def rates(schedule: Schedule, losses: list[float | None]) -> list[float]:
    """Return the rate of each step. losses[i] is the validation loss after step i, or None without a validation."""
    seen = []
    for loss in losses:
        seen.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
        if loss is not None:
            schedule.observe(loss)
    return seen


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]),
        ("cosine", [1 / 3, 2 / 3, 1] + [0.5 + 0.5 * math.cos(math.pi * k / 8) for k in range(1, 8)]),
    ],
)
def test_the_rate_warms_up_and_decays_whatever_the_loss(kind: str, expected: list[float]) -> None:
    config = plain_training(PLATEAU | {"schedule.kind": kind})
    assert [RateFactor(config.schedule, 10)(step) for step in range(10)] == pytest.approx(expected)
    assert rates(schedule(kind=kind), [5.0] * 9) == rates(schedule(kind=kind), [None] * 9)


def test_the_rate_is_halved_after_two_validations_without_a_better_loss() -> None:
    losses = [None, None, 5.0, 4.0, 4.5, 4.0, None, 4.1, 4.2, 3.0, 3.0]
    # The warm-up has 2 steps. Then 4.5, 4.0, 4.1 and 4.2 are not below the best loss 4.0.
    expected = [0.8 / 3, 1.6 / 3, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2]
    assert rates(schedule(), losses) == pytest.approx(expected)


def test_a_plateau_continues_from_its_state_in_json() -> None:
    losses = [None, None, 5.0, 6.0, None, 6.0, 6.0, 6.0, 6.0, 6.0]
    whole = rates(schedule(), losses)
    first, again = schedule(), schedule()
    rates(first, losses[:4])
    saved = json.loads(json.dumps([first.state_dict(), first.optimizer.state_dict()["param_groups"]]))
    again.load_state_dict(saved[0])
    again.optimizer.param_groups[0]["lr"] = saved[1][0]["lr"]
    assert rates(again, losses[4:]) == whole[4:]


@pytest.mark.parametrize("name", ["schedule.plateau_patience", "validation.early_stopping_patience"])
def test_a_patience_as_long_as_all_validations_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=9 needs validation.evaluations of at least 10"):
        plain_training(PLATEAU | {name: 9})
