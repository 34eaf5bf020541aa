"""What the served model takes: a row is checked by its fields, from a list as from a data frame."""

import math

import pytest
from pydantic import ValidationError

from rnnlm.config import GenerationConfig
from rnnlm.registry.served_model import DEFAULTS, Request


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", 1e-30),
        ("temperature", 101.0),
        ("top_p", 0.0),
        ("top_p", 5e-324),
        ("top_p", 1.1),
        ("top_k", -1),
        ("maximum_tokens", 0),
        ("maximum_tokens", 2.5),
        ("seed", -1),
        ("temprature", 1.0),
        ("prompt", 7),
        ("prompt", "a" * 100_001),
        ("text", "a text to score, too"),
    ],
)
def test_a_value_out_of_bounds_or_an_unknown_name_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Request.model_validate({"prompt": "a"} | {field: value})


def test_a_prompt_is_required_and_may_be_empty() -> None:
    assert Request.model_validate({"prompt": ""}).prompt == ""
    with pytest.raises(ValidationError, match="prompt"):
        Request.model_validate({"seed": 1})


def test_a_text_to_score_takes_no_sampling() -> None:
    assert Request.model_validate({"text": "a"}).text == "a"
    with pytest.raises(ValidationError, match="takes no seed, top_k"):
        Request.model_validate({"text": "a", "seed": 1, "top_k": 3})


def test_cells_missing_in_a_data_frame_are_defaults() -> None:
    request = Request.model_validate({"prompt": "a", "seed": 3.0, "top_k": math.nan, "temperature": math.nan})
    assert (request.seed, request.top_k, request.temperature) == (3, None, None)


def test_defaults_are_those_of_the_configuration() -> None:
    assert GenerationConfig().model_dump(exclude={"prompts"}) == DEFAULTS
