"""Averages of weights agree with a calculation by hand. Averaging does not change training."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from rnnlm.training.averaging import WeightAveraging, make_averaging
from tests.configs import plain_training


def line(weight: float = 0.0) -> nn.Linear:
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(weight)
    return model


def average(averaging: WeightAveraging, model: nn.Linear) -> float:
    with averaging.applied(model):
        return float(model.weight.detach())


def after(averaging: WeightAveraging, model: nn.Linear, weights: list[float], done: int = 0) -> list[float]:
    """Return the average of the weights after each step. Step i ends with the weight weights[i]."""
    seen = []
    for step, weight in enumerate(weights, start=done + 1):
        model.weight.data.fill_(weight)
        averaging.update(model, step)
        seen.append(average(averaging, model))
    return seen


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, (1 + 3) / 2, (1 + 3 + 8) / 3, (1 + 3 + 8 + 0) / 4]),
        ({"decay": 0.75}, [1, 0.75 * 1 + 0.25 * 3, 0.75 * 1.5 + 0.25 * 8, 0.75 * 3.125]),
        ({"start_step": 2}, [1, 3, 8, 4]),  # Before the first update, the averages are the weights of the model.
        ({"every": 2}, [1, 1, (1 + 8) / 2, (1 + 8) / 2]),
        ({"start_step": 1, "every": 2}, [1, 3, 3, (3 + 0) / 2]),
        ({"start_step": 3, "every": 10}, [1, 3, 8, 0]),  # Only the last step is included in the average.
    ],
)
def test_averages_by_hand(settings: dict[str, float], expected: list[float]) -> None:
    model = line()
    averaging = WeightAveraging(model, **({"start_step": 0} | settings))  # type: ignore[arg-type]
    assert after(averaging, model, [1.0, 3.0, 8.0, 0.0]) == pytest.approx(expected)


def test_training_continues_bit_by_bit_after_the_average_was_applied() -> None:
    model = line(0.1)
    averaging = WeightAveraging(model, 0)
    parameter, storage = model.weight, model.weight.data_ptr()
    averaging.update(model, 1)
    model.weight.data.fill_(0.3)
    with pytest.raises(RuntimeError), averaging.applied(model):
        assert float(model.weight.detach()) == pytest.approx(0.1)
        raise RuntimeError("a validation that fails restores the weights, too")
    assert model.weight is parameter
    assert model.weight.data_ptr() == storage
    assert float(model.weight.detach()) == float(torch.tensor(0.3))
    assert average(averaging, model) == pytest.approx(0.1)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_an_average_continues_from_its_saved_tensors(every: int) -> None:
    weights = [1.0, 3.0, 8.0, 0.0, 2.0]
    whole = after(WeightAveraging(line(), 1, every), line(), weights)
    model = line()
    first = WeightAveraging(model, 1, every)
    after(first, model, weights[:3])
    again = WeightAveraging(line(), 1, every)
    again.load_state_dict(load(save(first.state_dict())))
    assert after(again, model, weights[3:], done=3) == whole[3:]


@pytest.mark.parametrize("start", [0.0, 0.5, 0.99])
def test_the_end_of_a_run_is_averaged_however_short(start: float) -> None:
    # By default, the weights of every tenth step are averaged.
    config = plain_training({"averaging.kind": "mean", "averaging.start_share": start})
    for total_steps in (1, 2, 9, 15, 100, 1001):
        model = line()
        averaging = make_averaging(model, config.averaging, total_steps)
        assert averaging is not None
        for step in range(1, total_steps + 1):
            averaging.update(model, step)
        assert averaging.updates == 1 + (total_steps - averaging.start_step - 1) // 10 >= 1
