"""When training stops early, by hand."""

import json
import math

import pytest

from rnnlm.training.schedules import Patience


@pytest.mark.parametrize(
    ("patience", "perplexities", "expected"),
    [
        (1, [9.0, 8.0, 8.0], [False, False, True]),
        (2, [9.0, 9.5, 8.0, 8.5, 8.0], [False, False, False, False, True]),
        (2, [9.0, math.nan, math.inf], [False, False, True]),
        (None, [9.0, 10.0, 11.0, 12.0], [False] * 4),
    ],
)
def test_it_says_stop_after_so_many_evaluations_without_a_better_one(
    patience: int | None, perplexities: list[float], expected: list[bool]
) -> None:
    stopping = Patience(patience)
    said = []
    for perplexity in perplexities:
        stopping.observe(perplexity)
        said.append(stopping.exhausted)
    assert said == expected


def test_it_goes_on_counting_from_its_saved_state_which_is_json() -> None:
    first, again = Patience(2), Patience(2)
    first.observe(5.0)
    first.observe(6.0)
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert not again.exhausted
    again.observe(5.0)
    assert again.exhausted
