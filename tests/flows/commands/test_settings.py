"""`rnnlm settings`, `--config`, and the options that set a single setting."""

import json
from pathlib import Path

import pytest

from flows.command_line import main
from flows.commands.options import PipelineOptions, setting_paths
from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.errors import ConfigError

pytestmark = pytest.mark.usefixtures("home")


def test_every_setting_is_listed_with_its_value_type_bounds_and_description(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["settings", "--json"]) == 0
    rows = {row["field"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(setting_paths(PipelineConfig))
    assert all(row["description"] for row in rows.values())
    assert rows["model.layers"]["type"] == "whole number"
    assert rows["model.layers"]["bounds"] == "1 to 64"
    assert rows["sequences.mode"]["type"] == "sentence, stream"
    assert main(["settings", "training.optimizer"]) == 0
    text = capsys.readouterr().out
    assert "training.optimizer.learning_rate = " in text
    assert "model." not in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_file_wins_over_the_preset_and_set_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("model:\n  layers: 2\n  hidden_size: 32\ntraining.epochs: 7\n")
    config = build_config("smoke", ["model.layers=3"], file=file)
    assert (config.model.layers, config.model.hidden_size, config.training.epochs) == (3, 32, 7)
    assert config.tokenizer.vocabulary_size == 4000  # The `smoke` preset sets this value. It is not the default.


def test_short_options_stand_for_settings_and_set_wins() -> None:
    config = PipelineOptions(set=["training.epochs=3"], epochs="9", hidden_size="33").pipeline_config()
    assert (config.training.epochs, config.model.hidden_size) == (3, 33)
    config = PipelineOptions(engine="ray", ray_address="head:6379").pipeline_config()
    assert (config.sequences.engine, config.sequences.ray_address) == ("ray", "head:6379")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: {layers: two}", "model.layers: expected a whole number"),
        ("model: [", "is not valid YAML in line"),
        ("just words", "expected sections with fields"),
        ("modl: {layers: 2}", "modl"),
    ],
)
def test_a_wrong_file_is_reported(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        build_config(file=file)
