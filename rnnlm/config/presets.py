"""Construction of a PipelineConfig from a preset, a YAML file, settings in Python, and `--set` overrides."""

import contextlib
import difflib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from rnnlm.config import SIZE_SETTINGS, PipelineConfig
from rnnlm.config.moved_settings import MOVED, flatten, nest, upgrade
from rnnlm.config.preset_files import preset_files, read_preset
from rnnlm.config.validation import validated
from rnnlm.errors import ConfigError, close_to

SHORT_SETTINGS = {  # The paths of settings that have their own command-line options.
    "minutes": "training.minutes",
    "epochs": "training.epochs",
    "hidden_size": "model.hidden_size",
    "engine": "sequences.engine",
    "ray_address": "sequences.ray_address",
    "promote": "registry.promote",
}


def build_config(
    preset: str | None = None,
    overrides: Sequence[str] = (),
    corpus: str | None = None,
    force: Sequence[str] = (),
    file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> PipelineConfig:
    """Return the configuration, built from a preset, a YAML file, settings in Python and `--set`, in this order.

    The preset is that of the argument, otherwise that of the file, otherwise the default. `settings` is an argument for
    settings_by_path(). If a field is wrong, raise a ConfigError that names it.
    """
    given = settings_by_path(settings or {}) | dict(map(parse_override, overrides))
    chosen = (settings_of(file) if file else {}) | given
    name = preset or chosen.get("preset") or "default"
    flat = without_size(preset_settings(name), name, chosen) | chosen | {"preset": name}
    if corpus is not None:
        flat["corpus.source"] = given.get("corpus.source", corpus)
    values = nest(flat) | ({"force": list(force)} if force else {})
    return validated(PipelineConfig, values)


def preset_settings(name: str) -> dict[str, Any]:
    """Return the settings by dotted path in which the preset differs from PipelineConfig().

    Raise ConfigError if there is no such preset.
    """
    presets = preset_files()
    if not isinstance(name, str) or name not in presets:
        raise ConfigError(f"unknown preset {name!r}{close_to(str(name), presets)}; available: {', '.join(presets)}")
    return flatten(read_preset(name))


def without_size(values: Mapping[str, Any], preset: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without the preset's network size and training length if the user has set training.minutes.

    The minutes then determine this size and length. If the user has also set a length or an initial model, the minutes
    determine nothing, and all values are kept.
    """
    lengths = ("training.epochs", "training.maximum_tokens")
    is_closed = any(chosen.get(path) is not None for path in lengths)
    is_closed |= chosen.get("training.start_from", "nothing") != "nothing"
    if chosen.get("training.minutes") is None or is_closed:
        return dict(values)
    own = preset_settings(preset)
    return {path: value for path, value in values.items() if path not in SIZE_SETTINGS or own.get(path) != value}


def change_preset(deployed: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested configuration of a run whose preset is not the preset of its deployment.

    The settings are those of the preset that `given` names. The choices of the deployment replace them, and then the
    choices of the user. A choice of the deployment is a field that differs from the deployment's preset. The web form
    submits all fields, and shows the deployment's value or else the default. A choice of the user is a field that
    differs from the shown value.
    """
    plain = flatten(PipelineConfig().model_dump(mode="json"))
    deployed_flat, given_flat = flatten(deployed), flatten(given)
    shown = plain | deployed_flat
    of_deployment = plain | preset_settings(deployed_flat.get("preset", "default"))
    own = {path: value for path, value in deployed_flat.items() if of_deployment.get(path) != value}
    chosen = {path: value for path, value in given_flat.items() if shown.get(path) != value}
    return nest(preset_settings(given_flat["preset"]) | own | chosen | {"preset": given_flat["preset"]})


def with_choices(
    config: PipelineConfig,
    corpus: str = "",
    preset: str = "",
    maximum_tokens: int | None = None,
    settings: Sequence[str] = (),
    promote: str | None = None,
    minutes: float | None = None,
) -> PipelineConfig:
    """Return the configuration with the values entered in the web form. Empty fields change nothing.

    `settings` are lines in the form of `--set`. If a line is wrong, raise a ConfigError that names it.
    """
    values = config.model_dump(mode="json", exclude_defaults=True)
    if preset not in ("", config.preset):
        values = change_preset(values, {"preset": preset})
    # The source is copied separately, because model_dump() redacts passwords.
    chosen: dict[str, Any] = {"corpus.source": config.corpus.source}
    chosen |= dict(map(parse_override, settings))
    chosen |= {"corpus.source": corpus} if corpus else {}
    chosen |= {} if minutes is None else {"training.minutes": minutes}
    chosen |= {} if maximum_tokens is None else {"training.maximum_tokens": maximum_tokens}
    chosen |= {} if promote is None else {"registry.promote": promote}
    return validated(PipelineConfig, nest(without_size(flatten(values), preset or config.preset, chosen) | chosen))


def settings_of(file: Path) -> dict[str, Any]:
    """Return the settings in a YAML file by dotted path, with moved fields at their current path.

    Empty sections change nothing.
    """
    try:
        flat = flatten(upgrade(read_settings(file)))
    except RecursionError:
        raise ConfigError(f"--config {file}: is not valid YAML, because an alias contains itself") from None
    for path, value in list(flat.items()):
        if is_section_path(path):
            if value is not None:
                raise ConfigError(f"--config {file}: {path} is a section; expected fields, as in model: {{layers: 2}}")
            del flat[path]
    return flat


def is_section_path(path: str) -> bool:
    annotation: Any = PipelineConfig
    for name in path.split("."):
        if not is_section(annotation) or name not in annotation.model_fields:
            return False
        annotation = annotation.model_fields[name].annotation
    return is_section(annotation)


def read_settings(file: Path) -> dict[str, Any]:
    """Return the content of a YAML file: sections with fields, as in a preset, or dotted paths."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = close_to(file.name, [path.name for path in file.parent.glob("*.y*ml")])
        raise ConfigError(f"--config {file}: no such file{near or '; expected a YAML file with settings'}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {file}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise ConfigError(
            f"--config {file}: is not valid YAML{line}; expected lines such as model: {{layers: 2}}"
        ) from None
    if not isinstance(values, dict):
        raise ConfigError(f"--config {file}: expected sections with fields, such as model: {{layers: 2}}")
    return values


def parse_override(override: str) -> tuple[str, Any]:
    """Parse 'training.optimizer.clip_norm=2' into ('training.optimizer.clip_norm', 2). The value is parsed as YAML."""
    path, equals, text = override.partition("=")
    names = path.split(".")
    if equals and len(names) == 1 and (near := suggested_paths(path)):
        raise ConfigError(f"--set {override!r}: expected section.field=value; did you mean {near}?")
    if not (equals and len(names) > 1 and all(names)):
        raise ConfigError(f"--set {override!r}: expected section.field=value, such as model.hidden_size=256")
    return path, parse_value(text, type_of_setting(path, f"--set {path}"))


def settings_by_path(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that a caller passes in Python, by dotted path.

    The keys may be short names (minutes), dotted paths, or sections with their fields. A string is parsed as by
    `--set`.
    """
    values: dict[str, Any] = {}
    for name, value in flatten(settings).items():
        path = SHORT_SETTINGS.get(name, name)
        if "." not in path:
            near = close_to(name, SHORT_SETTINGS)
            if not near:
                paths = suggested_paths(path)
                near = f"; did you mean {paths}?" if paths else ""
            known = f"expected section.field, a section or one of {', '.join(SHORT_SETTINGS)}"
            raise ConfigError(f"unknown setting {name!r}{near or f'; {known}'}")
        annotation = type_of_setting(path, path)
        values[path] = parse_value(value, annotation) if isinstance(value, str) else value
    return values


def type_of_setting(path: str, said: str) -> Any:
    """Return the type of the field at a dotted path.

    Raise ConfigError if there is no such field. `said` is the user's spelling of the setting.
    """
    names = path.split(".")
    annotation: Any = PipelineConfig
    for depth, name in enumerate(names):
        if not is_section(annotation):
            raise ConfigError(f"{said}: {'.'.join(names[:depth])} is a field, not a section")
        # `force` and `preset` are left out, because they have their own command-line options.
        fields = [field for field in annotation.model_fields if field not in ("force", "preset")]
        if name not in fields:
            if path in MOVED:
                raise ConfigError(f"{said}: this field is now {MOVED[path]}")
            what, where = ("field", ".".join(names[:depth])) if depth else ("section", "the configuration")
            near = suggested_paths(names[-1])
            meant = f"did you mean {near}? " if near else ""
            raise ConfigError(f"{said}: unknown {what} {name!r}; {meant}{where} has: {', '.join(fields)}")
        annotation = annotation.model_fields[name].annotation
    if is_section(annotation):
        if path in MOVED:
            raise ConfigError(f"{said}: this field is now {MOVED[path]}")
        raise ConfigError(f"{said}: is a section; set one of its fields: {', '.join(annotation.model_fields)}")
    return annotation


def suggested_paths(name: str) -> str:
    """Return a text such as `model.hidden_size or …` with the settings whose name is `name` or similar, or ""."""
    paths = [path for path in flatten(PipelineConfig().model_dump()) if "." in path]
    last = {path.rpartition(".")[2] for path in paths}
    named = [name] if name in last else difflib.get_close_matches(name, last, n=1)
    return " or ".join([path for path in paths if path.rpartition(".")[2] in named][:3])


def is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def parse_value(text: str, annotation: Any) -> Any:
    """Parse a YAML value. If the field is a string, return the text unchanged, so that 'yes' and '12' remain strings.

    Numbers are parsed as in Python, because YAML reads 1:30 as 90, 010 as 8, and 2e-3 as a string.
    """
    parts = plain_types(annotation) - {type(None)}
    if parts <= {str, int, float} and text in ("null", "none", "None", "~"):
        return None
    if parts <= {str}:
        return text
    if parts <= {int, float}:
        return number_of(text)
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return number_of(value) if isinstance(value, str) else value


def plain_types(annotation: Any) -> set[Any]:
    """Return the types in a union without their annotations."""
    if get_origin(annotation) is Annotated:
        return plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return set().union(*map(plain_types, get_args(annotation)))
    return {annotation}


def number_of(text: str) -> int | float | str:
    """Return the number that the text represents, or the text itself if it is not a number."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
