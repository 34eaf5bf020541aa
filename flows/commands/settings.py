"""List the fields of the pipeline's configuration with `rnnlm settings`."""

import json
import textwrap
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from flows.commands.command import ReadingSession
from flows.commands.options import Preset
from rnnlm.config import PipelineConfig, Section
from rnnlm.config.presets import build_config, is_section
from rnnlm.config.validation import bounds_text
from rnnlm.display.text_layout import LINE_WIDTH
from rnnlm.errors import ConfigError

HEADING = "Pipeline"
TYPE_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}


def complete_sections() -> list[str]:
    return [name for name, field in PipelineConfig.model_fields.items() if is_section(field.annotation)]


def settings_command(
    session: ReadingSession,
    section: Annotated[
        str | None,
        typer.Argument(
            metavar="SECTION",
            help="Show only these settings: a section, a part of one or a field, such as training.optimizer.",
            autocompletion=complete_sections,
            show_default=False,
        ),
    ] = None,
    preset: Preset = None,
) -> None:
    """List the settings with type, bounds, default and description.

    rnnlm settings training.optimizer
    rnnlm settings model --preset ptb
    """
    rows = [row for row in setting_rows(build_config(preset)) if below(row["field"], section)]
    if not rows:
        raise ConfigError(f"{section}: no such section or field; sections: {', '.join(complete_sections())}")
    session.print_result("\n".join(map(setting_text, rows)), rows)


def below(field: str, section: str | None) -> bool:
    return section is None or f"{field}.".startswith(f"{section}.")


def setting_rows(config: Section, prefix: str = "") -> Iterator[dict[str, Any]]:
    """Yield a row for each field, with its dotted path, type, bounds, value in `config` and description."""
    values = config.model_dump(mode="json")
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, Section):
            yield from setting_rows(value, f"{prefix}{name}.")
        elif prefix:  # A top-level field that is not a section, such as force, cannot be set.
            yield {
                "field": prefix + name,
                "type": type_name(field.annotation),
                "bounds": bounds_text(field),
                "value": values[name],
                "description": field.description or "",
            }


def setting_text(row: dict[str, Any]) -> str:
    """Return a line such as `model.layers = 1` with type and bounds, followed by the description."""
    kind = ", ".join(filter(None, [row["type"], row["bounds"]]))
    value = row["value"] if isinstance(row["value"], str) else json.dumps(row["value"], ensure_ascii=False)
    lines = textwrap.wrap(row["description"], LINE_WIDTH - 4)
    return "\n".join([f"{row['field']} = {value}  ({kind})", *(f"    {line}" for line in lines)])


def type_name(annotation: Any) -> str:
    """Return the name of a type, such as `whole number`, `word or char or bpe`, `list of text` or `text or null`."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return type_name(arguments[0])
    if get_origin(annotation) is Literal:
        return ", ".join(map(str, arguments))
    if get_origin(annotation) is tuple:
        return f"list of {type_name(arguments[0])}"
    if arguments and get_origin(annotation) is not dict:
        return " or ".join(type_name(part) for part in arguments)
    return TYPE_NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))
