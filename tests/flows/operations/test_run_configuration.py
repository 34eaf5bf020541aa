"""Runs with the settings of their deployment follow registry.policy. Runs with other settings are experiments."""

from typing import Any

import pytest

from flows.operations.run_configuration import over_deployment, with_policy
from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config, with_choices

NIGHTLY: dict[str, Any] = {"config": {"preset": "smoke", "corpus": {"source": "zen"}, "model": {"hidden_size": 32}}}


@pytest.mark.parametrize(
    ("choices", "policy"),
    [
        ({}, "by_policy"),
        # A setting that does not change results does not make the run an experiment.
        ({"settings": ["tracking.log_every_seconds=5"]}, "by_policy"),
        ({"settings": ["model.hidden_size=32"]}, "by_policy"),
        ({"settings": ["model.hidden_size=33"]}, None),
        ({"settings": ["model.layers=2"], "maximum_tokens": 100_000}, None),
        ({"minutes": 5}, None),
        ({"preset": "ptb"}, None),
        ({"corpus": "python-docs"}, None),
        ({"promote": "never"}, "never"),
        ({"settings": ["model.layers=2"], "promote": "by_policy"}, "by_policy"),
        ({"settings": ["registry.promote=if_better"]}, "if_better"),
    ],
)
def test_only_a_run_with_its_deployment_s_settings_follows_the_policy(
    choices: dict[str, Any], policy: str | None
) -> None:
    config = with_choices(PipelineConfig.model_validate(NIGHTLY["config"]), **choices)
    assert with_policy(config, NIGHTLY).registry.promote == policy


def test_fields_that_were_filled_in_for_the_deployment_are_its_own_settings() -> None:
    deployed = {"settings": ["model.layers=2"], "preset": "smoke", "corpus": "zen", "maximum_tokens": None}
    config = build_config("smoke", ["model.layers=2"], "zen")
    assert with_policy(config, deployed).registry.promote == "by_policy"
    assert with_policy(build_config("smoke", [], "zen"), deployed).registry.promote is None


def test_a_deployment_that_has_only_a_presets_name_has_its_settings() -> None:
    """A deployment with only a preset's name has the preset's settings.

    Such a deployment is created by `prefect deploy`, which does not read presets/.
    """
    values = over_deployment({"preset": "smoke"}, {"model": {"layers": 2}})
    assert PipelineConfig.model_validate(values) == build_config("smoke", ["model.layers=2"])
    assert with_policy(build_config("smoke"), {"config": {"preset": "smoke"}}).registry.promote == "by_policy"


def test_the_form_s_minutes_choose_as_the_option_does() -> None:
    """The minutes in the UI's form determine the model's size and the training length, as --minutes does.

    A given maximum_tokens is kept.
    """
    assert with_choices(build_config("smoke"), minutes=5) == build_config("smoke", ["training.minutes=5"])
    long = with_choices(build_config("smoke"), minutes=5, maximum_tokens=9)
    assert long == build_config("smoke", ["training.minutes=5", "training.maximum_tokens=9"])
