"""What an explanation holds of the state, and how it ends early."""

import pytest

from rnnlm.serving.messages import ExplainRequest
from rnnlm.serving.model_loader import LoadedModel
from rnnlm.serving.request_batcher import BusyError
from rnnlm.serving.text_explainer import explain_text, shown_units


@pytest.mark.parametrize(
    ("layers", "hidden_size", "first", "count"),
    [
        (1, 16, [0, 1, 2], 16),
        (1, 64, [0, 1, 2], 64),
        (1, 1_024, [0, 16, 32], 64),
        (4, 128, [0, 8, 17], 16),
        (64, 9, [0], 1),
    ],
)
def test_at_most_64_units_are_shown_evenly_chosen(layers: int, hidden_size: int, first: list[int], count: int) -> None:
    units = shown_units(layers, hidden_size)
    assert units[: len(first)] == first
    assert (len(units), len(set(units))) == (count, count)
    assert units[-1] == hidden_size - 1 or count == 1


def test_the_work_ends_before_the_next_step(loaded: LoadedModel) -> None:
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 3:
            raise BusyError("out of time")

    with pytest.raises(BusyError, match="out of time"):
        explain_text(loaded, ExplainRequest(text="the cat sees the dog near the house"), check)
    assert checks == 3
