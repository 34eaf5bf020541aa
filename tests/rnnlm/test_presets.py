"""A configuration is right, or the error names the field and what to do."""

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.presets import build_config, read_presets


def test_what_a_preset_does_not_name_keeps_its_default() -> None:
    plain = PipelineConfig().model_dump(mode="json")
    named = read_presets()["default"]
    assert named
    for section, values in build_config().model_dump(mode="json").items():
        assert values == (plain[section] | named[section] if section in named else plain[section])


def test_every_preset_is_a_valid_configuration() -> None:
    assert {"default", "smoke", "counting", "overfit"} <= set(read_presets())
    for name in read_presets():
        build_config(name)


def test_overrides_win_over_the_preset_and_the_last_over_the_first() -> None:
    config = build_config("smoke", ["model.hidden_size=8", "model.hidden_size=9"], corpus="x.txt")
    assert config.model.hidden_size == 9
    assert config.corpus.source == "x.txt"
    assert config.tokenizer.vocabulary_size == 4000


@pytest.mark.parametrize(
    ("override", "section", "field", "value"),
    [
        ("training.learning_rate=2e-3", "training", "learning_rate", 0.002),
        ("training.deterministic=true", "training", "deterministic", True),
        ("training.maximum_tokens=null", "training", "maximum_tokens", None),
        ("generation.prompts=[the cat, a dog]", "generation", "prompts", ("the cat", "a dog")),
        ("corpus.name=2024", "corpus", "name", "2024"),
        ("tokenizer.unknown_literal=null", "tokenizer", "unknown_literal", None),
        ("tracking.experiment=yes", "tracking", "experiment", "yes"),
    ],
)
def test_values_take_the_type_of_their_field(override: str, section: str, field: str, value: object) -> None:
    assert getattr(getattr(build_config(overrides=[override]), section), field) == value


@pytest.mark.parametrize(
    ("preset", "override", "names"),
    [
        ("nope", None, ["nope", "default", "smoke"]),
        ("default", "modl.hidden_size=3", ["modl", "model"]),
        ("default", "model.hidden=3", ["model.hidden", "hidden_size"]),
        ("default", "model.hidden_size", ["section.field=value"]),
        ("default", "model.hidden_size=many", ["model.hidden_size", "many"]),
        ("default", "model.hidden_size=0", ["model.hidden_size", "0"]),
        ("smoke", "model.recurrence=diagonal", ["recurrent_initialization=identity or spread"]),
        ("default", "training.learning_rate=.nan", ["training.learning_rate"]),
        ("default", "tokenizer.kind=chars", ["tokenizer.kind", "word", "bpe"]),
        ("default", "corpus.valid_share=0.9", ["corpus.valid_share", "0.5"]),
        ("default", "evaluation.splits=[test]", ["evaluation", "valid"]),
        ("default", "probes.gradient_steps=0", ["probes.gradient_steps", "0"]),
        ("counting", "sequences.mode=stream", ["probes.positions", "sentence"]),
    ],
)
def test_a_wrong_setting_is_named_in_at_most_three_lines(preset: str, override: str | None, names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(preset, [override] if override else [])
    message = str(caught.value)
    assert all(name in message for name in names), message
    assert len(message.splitlines()) <= 3


def test_many_wrong_settings_still_fit_three_lines() -> None:
    wrong = ["model.layers=0", "model.hidden_size=0", "training.epochs=0", "training.seed=-1"]
    with pytest.raises(ConfigError, match=r"and 2 more") as caught:
        build_config(overrides=wrong)
    assert len(str(caught.value).splitlines()) == 3


def test_small_byte_level_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="260"):
        build_config(overrides=["tokenizer.kind=bpe", "tokenizer.vocabulary_size=100"])
