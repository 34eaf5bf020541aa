"""Each preset is a file. A deployment that names a preset has its settings."""

from pathlib import Path
from typing import get_args

import pytest
import yaml

from flows.operations.deployments import read_plans
from rnnlm.config import PipelineConfig, Preset
from rnnlm.config.moved_settings import flatten
from rnnlm.config.preset_files import preset_files, read_preset, with_preset_settings
from rnnlm.config.presets import build_config

PRESETS = Path(__file__).parents[3] / "presets"


def test_the_form_offers_the_files_of_presets() -> None:
    assert {path.stem for path in PRESETS.iterdir()} <= set(get_args(Preset))
    assert get_args(Preset) == tuple(preset_files())


@pytest.mark.parametrize("name", preset_files())
def test_a_preset_says_what_it_is_for_and_states_only_what_differs(name: str) -> None:
    text = preset_files()[name].read_text(encoding="utf-8")
    assert text.startswith("# ")
    stated = yaml.safe_load(text) or {}
    base = PipelineConfig.model_validate(read_preset(stated.get("preset", "default")))
    before, values = flatten(base.model_dump(mode="json")), flatten(stated)
    assert not [path for path, value in values.items() if path != "preset" and before[path] == value]
    assert build_config(name).preset == name


def test_a_preset_that_starts_from_another_keeps_what_it_does_not_state() -> None:
    ptb, long = build_config("ptb"), build_config("ptb-long")
    assert (long.preset, long.model.layers, ptb.model.layers) == ("ptb-long", 4, 1)
    assert long.tokenizer == ptb.tokenizer
    assert (long.training.dropout.layers, long.training.dropout.outputs) == (0.2, ptb.training.dropout.outputs)


def test_a_deployment_has_the_settings_of_the_preset_that_it_names() -> None:
    configs = {plan["name"]: plan.get("parameters", {}).get("config", {}) for plan in read_plans()}
    assert PipelineConfig.model_validate(configs["smoke"]) == build_config("smoke")
    assert PipelineConfig.model_validate(configs["train-gpu"]) == build_config("gpu")
    assert configs["nightly"] == {"limits": {"hours": 20.0, "retries": 1}}


def test_a_deployments_own_settings_win() -> None:
    config = with_preset_settings({"preset": "smoke", "model": {"hidden_size": 8}})
    assert flatten(config)["model.hidden_size"] == 8
    assert flatten(config)["training.maximum_tokens"] == 300_000
