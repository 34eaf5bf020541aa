"""The learning rate of a plateau, by hand."""

import json

import pytest
import torch
from torch import nn

from rnnlm.config import TrainingConfig
from rnnlm.training.schedules import RateFactor, Schedule
from tests.configs import plain_training


def config(settings: dict[str, object] | None = None) -> TrainingConfig:
    plateau = {
        "schedule.kind": "plateau",
        "validation.evaluations": 9,
        "schedule.plateau_factor": 0.5,
        "schedule.plateau_patience": 2,
    }
    return plain_training(plateau | {"schedule.warmup_share": 0.2, "optimizer.learning_rate": 0.8} | (settings or {}))


def rates(schedule: Schedule, losses: list[float | None]) -> list[float]:
    """The rate of each step; losses[i] is what validation says after it, None: it is not asked."""
    seen = []
    for loss in losses:
        seen.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
        if loss is not None:
            schedule.observe(loss)
    return seen


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.8)


def test_the_rate_is_halved_after_two_evaluations_without_a_better_loss() -> None:
    losses = [None, None, 5.0, 4.0, 4.5, 4.0, None, 4.1, 4.2, 3.0, 3.0]
    schedule = Schedule(optimizer(), config().schedule, 10)
    # Warm-up over 2 steps; 4.5 and 4.0 are no better than 4.0, then 4.1 and 4.2 are not.
    expected = [0.8 / 3, 1.6 / 3, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2]
    assert rates(schedule, losses) == pytest.approx(expected)


def test_a_loss_from_the_warm_up_counts_for_nothing() -> None:
    schedule = Schedule(
        optimizer(), config({"schedule.warmup_share": 0.4, "schedule.plateau_patience": 1}).schedule, 10
    )
    losses = [1.0, 1.0, 1.0, 9.0, 8.0, 7.0]  # the first three stand within 4 steps of warm-up
    assert rates(schedule, losses)[-2:] == pytest.approx([0.8, 0.8])
    schedule.observe(7.0)
    assert schedule.optimizer.param_groups[0]["lr"] == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_other_schedules_do_not_listen(name: str) -> None:
    told, untold = (Schedule(optimizer(), config({"schedule.kind": name}).schedule, 10) for _ in range(2))
    assert rates(told, [5.0] * 9) == rates(untold, [None] * 9)


def test_a_plateau_goes_on_from_its_saved_state_which_is_json() -> None:
    losses = [None, None, 5.0, 6.0, None, 6.0, 6.0, 6.0, 6.0, 6.0]
    whole = rates(Schedule(optimizer(), config().schedule, 10), losses)
    first = Schedule(optimizer(), config().schedule, 10)
    rates(first, losses[:4])
    saved = json.loads(json.dumps([first.state_dict(), first.optimizer.state_dict()["param_groups"]]))
    again = Schedule(optimizer(), config().schedule, 10)
    again.load_state_dict(saved[0])
    again.optimizer.param_groups[0]["lr"] = saved[1][0]["lr"]
    assert rates(again, losses[4:]) == whole[4:]


def test_a_patience_longer_than_all_evaluations_is_refused() -> None:
    with pytest.raises(ValueError, match="plateau_patience=9 needs validation.evaluations of at least 10"):
        config({"schedule.plateau_patience": 9})
    with pytest.raises(ValueError, match="early_stopping_patience=9 needs validation.evaluations of at least 10"):
        config({"validation.early_stopping_patience": 9})


def test_a_factor_is_asked_without_being_changed() -> None:
    factor = RateFactor(config().schedule, 10)
    assert [factor(9), factor(9)] == [1.0, 1.0]
