"""A valid configuration is accepted, and the error for an invalid one names the wrong field and gives advice."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from rnnlm.config import SIZE_SETTINGS, PipelineConfig, Section, changes_results, result_settings, setting
from rnnlm.config.moved_settings import flatten, nest
from rnnlm.config.preset_files import read_preset
from rnnlm.config.presets import build_config, change_preset, parse_override, with_choices
from rnnlm.config.section import fact_of
from rnnlm.errors import ConfigError
from rnnlm.storage.home import digest_of


def test_minutes_chosen_by_hand_replace_a_presets_own_size_and_length() -> None:
    config = build_config("ptb", ["training.minutes=5", "training.dropout.outputs=0.4"])
    flat = flatten(config.model_dump(mode="json"))
    assert {path for path in SIZE_SETTINGS if flat[path] is not None} == {"training.dropout.outputs"}
    # The preset's settings that do not concern the size are kept.
    assert (config.training.minutes, config.training.loss.sampled_classes) == (5, 2048)
    assert with_choices(build_config("ptb"), settings=["training.minutes=5", "training.dropout.outputs=0.4"]) == config


# The values of all fields that Prefect's form submits: those of the deployment, or the defaults.
SMOKE_DEPLOYMENT = nest(flatten(read_preset("smoke")) | {"corpus.source": "/data/t", "training.maximum_tokens": 5000})


def shown_by_form(deployed: dict[str, object], **chosen: object) -> dict[str, object]:
    plain = flatten(PipelineConfig().model_dump(mode="json"))
    return nest(plain | flatten(deployed) | {path.replace("__", "."): value for path, value in chosen.items()})


def test_another_preset_in_the_form_replaces_unchanged_settings() -> None:
    given = shown_by_form(SMOKE_DEPLOYMENT, preset="shakespeare", training__epochs=2)
    config = PipelineConfig.model_validate(change_preset(SMOKE_DEPLOYMENT, given))
    expected = build_config("shakespeare", ["training.epochs=2", "training.maximum_tokens=5000"], corpus="/data/t")
    assert config == expected
    assert (config.tokenizer.kind, config.model.hidden_size) == ("char", 512)


def test_a_preset_is_a_name_only_in_a_stored_configuration() -> None:
    """A configuration that is stored and read again does not change, even if a setting differs from its preset."""
    # 3 epochs are the default, whereas the `smoke` preset has 1 epoch.
    config = build_config("smoke", ["training.epochs=3"])
    assert PipelineConfig.model_validate_json(config.model_dump_json()) == config
    assert PipelineConfig.model_validate(config.model_dump(exclude_defaults=True)) == config
    assert "preset" not in result_settings(config)  # The id of a run must not depend on the preset's name.


@pytest.mark.parametrize(
    ("preset", "override", "names"),
    [
        ("nope", None, ["nope", "default", "smoke"]),
        ("default", "modl.hidden_size=3", ["modl", "model"]),
        ("default", "model.hidden=3", ["model.hidden", "hidden_size"]),
        ("default", "model.hidden_size", ["section.field=value"]),
        ("default", "model=3", ["section.field=value"]),
        ("default", "model.layers.first=3", ["model.layers", "not a section"]),
        ("default", "training.optimizer=3", ["training.optimizer", "section", "learning_rate"]),
        ("default", "training.optimizer.momentum=1", ["training.optimizer", "momentum", "clip_norm"]),
        ("default", "model.hidden_size=many", ["model.hidden_size", "many"]),
        ("default", "model.hidden_size=0", ["model.hidden_size", "0"]),
        ("smoke", "model.recurrence=diagonal", ["recurrent_initialization=identity, leaky or spread"]),
        ("default", "training.optimizer.learning_rate=.nan", ["training.optimizer.learning_rate"]),
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


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (
            ["model.kind=min-lstm", "training.dropout.recurrent=0.2"],
            ["dropout.recurrent=0.2", "lstm or xlstm", "min-lstm"],
        ),
        (["model.kind=xlstm", "model.hidden_size=250"], ["hidden_size=250", "multiple of heads=4"]),
        (["model.kind=transformer", "model.hidden_size=252"], ["hidden_size=252", "multiple of 2 * heads=8"]),
        (["model.kind=xlstm", "model.residual=true"], ["residual=True", "kind=elman"]),
        (["model.kind=kneser-ney", "training.teacher.run=0123"], ["teacher.run", "kneser-ney"]),
    ],
)
def test_settings_that_do_not_fit_the_kind_of_model_are_named(overrides: list[str], names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(overrides=overrides)
    message = str(caught.value)
    assert all(name in message for name in names), message
    assert len(message.splitlines()) <= 3


def test_small_byte_level_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="260"):
        build_config(overrides=["tokenizer.kind=bpe", "tokenizer.vocabulary_size=100"])


def test_a_configuration_with_former_paths_is_read() -> None:
    """A configuration of version 0.2, in which `training` had no sections yet, can be read."""
    stored = {"training": {"loss": "exact", "schedule": "linear", "dropout_words": 0.1, "clip_norm": 2, "epochs": 1}}
    before = copy.deepcopy(stored)
    training = PipelineConfig.model_validate(stored).training
    assert (training.loss.kind, training.schedule.kind, training.dropout.words) == ("exact", "linear", 0.1)
    assert (training.optimizer.clip_norm, training.epochs) == (2, 1)
    assert stored == before  # The function has not changed the caller's dictionary.


def test_a_removed_field_of_an_older_version_is_left_out() -> None:
    older = PipelineConfig.model_validate({"training": {"cuda_graphs": True, "seed": 3}})
    assert older.training.seed == 3


def test_the_new_path_of_a_moved_field_wins() -> None:
    """The value at the current path is used if a field is set at both its former and its current path.

    This happens if the deployment is older than the run, whose values take precedence.
    """
    training = {"learning_rate": 0.5, "schedule": "linear", "optimizer": {"learning_rate": 0.25}}
    config = PipelineConfig.model_validate({"training": training}).training
    assert (config.optimizer.learning_rate, config.schedule.kind) == (0.25, "linear")


def test_a_moved_field_is_refused_with_its_new_path() -> None:
    with pytest.raises(ConfigError, match="^--set training.loss: this field is now training.loss.kind$"):
        build_config(overrides=["training.loss=exact"])


def fields_of(section: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        yield f"{prefix}{name}", field
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from fields_of(field.annotation, f"{prefix}{name}.")


def test_every_field_has_a_description() -> None:
    assert [path for path, field in fields_of(PipelineConfig) if not field.description] == []


def test_result_settings_lack_fields_that_change_no_result() -> None:
    settings = flatten(result_settings(PipelineConfig()))
    everything = flatten(PipelineConfig().model_dump(mode="json"))
    left_out = {
        path for path, field in fields_of(PipelineConfig) if not changes_results(field) or fact_of(field, "added_later")
    }
    # If a whole section was added later, its fields are left out as well.
    missing = {path for path in everything if path in left_out or path.rpartition(".")[0] in left_out}
    assert everything.keys() - settings.keys() == missing
    assert "training.distributed.restarts" not in settings
    assert settings["training.distributed.processes"] == 1


def test_result_settings_lack_later_fields_at_their_default() -> None:
    class Part(Section):
        size: int = setting(1, "Size.")
        colour: str = setting("red", "Colour.", added_later=True)

    class Whole(Section):
        part: Part = setting(Part(), "Part.")

    assert result_settings(Whole()) == {"part": {"size": 1}}
    assert result_settings(Whole(part=Part(colour="red"))) == {"part": {"size": 1}}
    assert result_settings(Whole(part=Part(colour="blue"))) == {"part": {"size": 1, "colour": "blue"}}


def test_datasets_and_runs_keep_the_names_that_they_had() -> None:
    """The settings that are part of the ids of datasets and runs have not changed.

    If this test fails, a new field must be marked as added_later.
    """
    digests = {
        name: (
            digest_of(result_settings(config.sequences))[:16],
            digest_of([result_settings(config.model), result_settings(config.training)])[:16],
        )
        for name, config in ((name, build_config(name)) for name in ("default", "ptb", "shakespeare"))
    }
    assert digests == {
        "default": ("147020d7e6e610e1", "cbda24934b9fc458"),
        "ptb": ("efb1b84c7e6d166d", "83663293c316fc68"),
        "shakespeare": ("efb1b84c7e6d166d", "012074ca9d59bf02"),
    }


def test_the_choices_of_a_form_override_the_whole_configuration() -> None:
    deployed = build_config("smoke", ["model.layers=2", "limits.hours=3"], "python-docs")
    assert with_choices(deployed) == deployed
    assert with_choices(deployed, settings=["corpus.source=news"]).corpus.source == "news"
    secret = build_config("smoke", corpus="https://example.org/text.txt?key=secret")
    assert with_choices(secret, maximum_tokens=7).corpus.source == "https://example.org/text.txt?key=secret"
    lines = ["training.optimizer.learning_rate=2e-3", "model.layers=1"]
    chosen = with_choices(deployed, "tickets", "default", 5_000, lines)
    expected = build_config("default", [*lines, "limits.hours=3", "training.maximum_tokens=5000"], "tickets")
    assert chosen == expected


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("model:\n  # layers: 2\n", {}),
        # `training.loss` is the former name of this setting.
        ("training: {loss: exact}", {"training.loss.kind": "exact"}),
        ("preset:\nmodel.layers: 2", {"model.layers": 2}),
        ("force: [training]", {"force": ("training",)}),
    ],
)
def test_a_file_and_options_are_joined_field_by_field(tmp_path: Path, text: str, settings: dict[str, object]) -> None:
    (tmp_path / "own.yaml").write_text(text)
    options = ["training.loss.sampled_classes=512", "model.hidden_size=64"]
    config = flatten(build_config("ptb", options, file=tmp_path / "own.yaml").model_dump())
    expected = {"training.loss.sampled_classes": 512, "model.hidden_size": 64, "training.epochs": 32} | settings
    assert {path: config[path] for path in expected} == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("training: 3", "training is a section; expected fields"),
        ("preset: 5", "unknown preset 5"),
        ("preset: [smoke]", "unknown preset"),
        ("a: &a {b: *a}", "an alias contains itself"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        build_config(overrides=["training.epochs=2"], file=tmp_path / "own.yaml")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("training.epochs=010", 10),
        ("training.epochs=1e1", 10),
        ("training.maximum_tokens=1_000", 1000),
        ("training.maximum_tokens=null", None),
        ("training.minutes=2e-3", 0.002),
        ("training.loss.kind=exact", "exact"),
        ("corpus.lowercase=yes", True),
        ("corpus.name=12", "12"),
    ],
)
def test_numbers_are_read_as_python_writes_them(setting: str, value: object) -> None:
    path, given = parse_override(setting)
    assert flatten(build_config(overrides=[setting]).model_dump())[path] == value
    assert given == value


@pytest.mark.parametrize("setting", ["training.minutes=1:30", "training.epochs=yes", "training.epochs=0x10"])
def test_what_yaml_alone_calls_a_number_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        build_config(overrides=[setting])


def test_minutes_that_choose_nothing_leave_the_presets_size() -> None:
    for closing in ("training.epochs=3", "training.maximum_tokens=1000", "training.start_from=champion"):
        config = build_config("ptb", ["training.minutes=10", closing])
        assert config.model.hidden_size == build_config("ptb").model.hidden_size
    assert build_config("ptb", ["training.minutes=10"]).model.hidden_size is None


def test_a_source_that_is_set_wins_over_the_option() -> None:
    assert build_config(overrides=["corpus.source=b.txt"], corpus="a.txt").corpus.source == "b.txt"
