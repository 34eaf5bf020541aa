"""The served model checks the fields of its input rows, which may be a list or a data frame."""

import math

import pytest
from pydantic import ValidationError

import rnnlm.config
from rnnlm.config import GenerationConfig
from rnnlm.extensions.serving.messages import GenerateRequest
from rnnlm.registry.served_model import LOWEST_TEMPERATURE, SAMPLING_DEFAULTS, PredictionRequest


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("top_p", 1.1),
        ("top_k", -1),
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
        PredictionRequest.model_validate({"prompt": "a"} | {field: value})


def test_a_text_to_score_takes_no_sampling() -> None:
    assert PredictionRequest.model_validate({"text": "a"}).text == "a"
    with pytest.raises(ValidationError, match="takes no seed, top_k"):
        PredictionRequest.model_validate({"text": "a", "seed": 1, "top_k": 3})


def test_cells_missing_in_a_data_frame_are_defaults() -> None:
    request = PredictionRequest.model_validate({"prompt": "a", "seed": 3.0, "top_k": math.nan, "temperature": math.nan})
    assert (request.seed, request.top_k, request.temperature) == (3, None, None)


def test_bounds_are_those_of_the_configuration() -> None:
    bounds = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    served, configured = (kind.model_json_schema()["properties"] for kind in (PredictionRequest, GenerationConfig))
    for name in SAMPLING_DEFAULTS:
        # The first alternative is the number's type, and the second alternative is null.
        of_a_number = served[name]["anyOf"][0]
        assert {bound: of_a_number.get(bound) for bound in bounds} == {
            bound: configured[name].get(bound) for bound in bounds
        }
    assert LOWEST_TEMPERATURE == rnnlm.config.LOWEST_TEMPERATURE
    for kind, rest in ((PredictionRequest, {"prompt": "a"}), (GenerationConfig, {}), (GenerateRequest, {})):
        assert kind.model_validate(rest | {"temperature": 0.01}).temperature == 0.01
        for wrong in (0.009, 100.1, math.inf):
            with pytest.raises(ValidationError, match="temperature"):
                kind.model_validate(rest | {"temperature": wrong})
