"""Options that commands share: those of a config class, and those that make up a PipelineConfig.

argparse only splits the command line. Values reach pydantic as text, so each is validated once, by its config class.
"""

import argparse
import inspect
import logging
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from rnnlm.config import STAGES, PipelineConfig, Section
from rnnlm.home import Home
from rnnlm.presets import build_config, read_presets, validate_section

PrintResult = Callable[[str, Any], None]  # (text for people, value for programs)
Command = Callable[[argparse.Namespace, Home, PrintResult], None]
Commands = Any  # argparse's subparsers: their class is private
SectionT = TypeVar("SectionT", bound=Section)
MODEL = "a run folder, a run id, models:/NAME@ALIAS or models:/NAME/VERSION"
CORPUS = "a catalogue name (rnnlm corpora), hf:OWNER/NAME[:CONFIG], a file, folder, glob or http(s) URL"


def add_command(
    commands: Commands, name: str, command: Command, parents: Sequence[argparse.ArgumentParser] = ()
) -> argparse.ArgumentParser:
    """Add a command with --json. Its docstring is its --help: one sentence, then examples."""
    sentence, _, examples = inspect.cleandoc(command.__doc__ or name).partition("\n\n")
    sub: argparse.ArgumentParser = commands.add_parser(
        name,
        help=sentence[0].lower() + sentence[1:].removesuffix("."),
        description=sentence,
        epilog="example:\n" + textwrap.indent(examples, "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=list(parents),
    )
    sub.set_defaults(command=command)
    sub.add_argument("--json", action="store_true", help="print one JSON value on standard output")
    return sub


def add_config_options(
    sub: argparse.ArgumentParser, section: str, config: type[Section], *fields: str, prefix: str = "", **renamed: str
) -> None:
    """Add an option for each named field of a config class, described by the field itself.

    renamed: option → field, where the two differ. A boolean field becomes a flag that inverts its default.
    config_from() reads the values.
    """
    for option, name in ({field: field for field in fields} | renamed).items():
        field = config.model_fields[name]
        settings: dict[str, Any] = {"dest": f"{section}.{name}", "help": field_help(field)}
        if isinstance(field.default, bool):
            settings |= {"action": "store_const", "const": not field.default}
        else:
            settings |= value_settings(option, field.annotation) | {"required": field.is_required()}
        sub.add_argument(f"--{prefix}{option}".replace("_", "-"), **settings)


def value_settings(option: str, annotation: Any) -> dict[str, Any]:
    """argparse settings that show what values a field of this type takes."""
    origin = get_origin(annotation)
    if origin in (types.UnionType, Union, Annotated):  # X | None, or X with bounds
        return value_settings(option, get_args(annotation)[0])
    if origin is tuple:
        return {"metavar": "N" if get_origin(get_args(annotation)[0]) is Annotated else "NAME", "nargs": "+"}
    if origin is Literal:
        return {"metavar": f"{{{','.join(get_args(annotation))}}}"}
    return {"metavar": "N" if annotation in (int, float) else option.upper().replace("_", "-")}


def field_help(field: FieldInfo) -> str:
    """The field's description with its choices (of a tuple), bounds and default."""
    notes = []
    item = get_args(field.annotation)[0] if get_origin(field.annotation) is tuple else None
    if get_origin(item) is Literal:
        notes.append(f"of {', '.join(get_args(item))}")
    bounds = {
        name: getattr(bound, name) for bound in field.metadata for name in ("ge", "gt", "le") if hasattr(bound, name)
    }
    least, above, most = (bounds.get(name) for name in ("ge", "gt", "le"))
    if least is not None and most is not None:
        notes.append(f"{least:,} to {most:,}")
    elif least:  # that nothing is negative goes without saying
        notes.append(f"at least {least:,}")
    elif above is not None:
        notes.append(f"above {above:,}" + ("" if most is None else f", at most {most:,}"))
    default = " ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    if not (field.is_required() or default is None or isinstance(default, bool)):
        notes.append(f"default: {default}")
    text = (field.description or "").removesuffix(".")
    return (f"{text} ({'; '.join(notes)})" if text and notes else text or "; ".join(notes)).replace("%", "%%")


def given_values(options: argparse.Namespace, section: str) -> dict[str, Any]:
    """Field → value for the section's options on the command line."""
    start = f"{section}."
    return {
        dest.removeprefix(start): value
        for dest, value in vars(options).items()
        if dest.startswith(start) and value is not None
    }


def config_from(
    options: argparse.Namespace, section: str, config: type[SectionT], defaults: dict[str, Any] | None = None
) -> SectionT:
    """The section with the given options over `defaults` over the fields' own defaults."""
    return validate_section(section, config, (defaults or {}) | given_values(options, section))


def add_set_option(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.FIELD=VALUE",
        help="change one setting, such as model.hidden_size=256; repeatable",
    )


def pipeline_options() -> argparse.ArgumentParser:
    """A parent parser with the options that make up a PipelineConfig."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--corpus", help=CORPUS)
    parent.add_argument(
        "--preset", default="default", help=f"settings to start from: {', '.join(read_presets())} (default: default)"
    )
    add_set_option(parent)
    parent.add_argument(
        "--force", action="append", default=[], metavar="STAGE", help=f"rerun a stage: {', '.join(STAGES)}; repeatable"
    )
    return parent


def pipeline_config(options: argparse.Namespace) -> PipelineConfig:
    """The configuration that pipeline_options() describe."""
    return with_checked_source(build_config(options.preset, options.set, options.corpus, options.force))


def corpus_config(options: argparse.Namespace, *overrides: str) -> PipelineConfig:
    """The default preset with `overrides` and then --set, for commands that only need a dataset."""
    return with_checked_source(build_config("default", [*overrides, *options.set], options.corpus))


def with_checked_source(config: PipelineConfig) -> PipelineConfig:
    """Refuse a corpus that cannot be right here, before a Prefect server is started for it."""
    from rnnlm.corpora.download import check_source

    check_source(config.corpus)
    return config


def show_warnings() -> None:
    """Show the library's warnings on standard error, for commands that run outside Prefect."""
    logging.basicConfig(level=logging.WARNING, format="rnnlm: %(message)s", stream=sys.stderr)
