"""Commands print their results as text or as one valid JSON value."""

import io
import json
import math

import pytest

from flows.commands.command import Session
from rnnlm.storage.home import Home
from rnnlm.storage.records import Record


class Measured(Record):
    figure: float


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, [math.nan], {"a": math.inf}, Measured(figure=math.nan)]
)
def test_a_number_that_json_does_not_have_is_null(home: Home, value: object) -> None:
    out = io.StringIO()
    Session(home, out, json=True).print_result("text", {"value": value, "big": 10**300, "small": 1e-300})
    found = json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert json.dumps(found["value"]).count("null") == 1
    assert (found["big"], found["small"]) == (10**300, 1e-300)
