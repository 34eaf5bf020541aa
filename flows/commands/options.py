"""Arguments and options that commands share, with their shell completion, and the configuration they make up."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rnnlm.config import STAGES, EngineConfig, PipelineConfig, Section
from rnnlm.home import find_home
from rnnlm.presets import build_config, is_section, read_presets

CORPUS_HELP = "A catalogue name (rnnlm corpora), hf:OWNER/NAME[:CONFIG], a file, folder, glob or http(s) URL."
MODEL_HELP = (
    "A registered name (its champion), NAME@challenger, NAME/3, a run's id or folder. "
    "Default: the champion of the only registered model."
)
PIPELINE = "Pipeline settings"  # heading in --help


def complete_presets() -> list[str]:
    return list(read_presets())


def complete_corpora() -> list[str]:
    from rnnlm.corpora.catalogue import CATALOGUE

    return list(CATALOGUE)


def complete_runs() -> list[str]:
    return sorted(folder.name for folder in find_home().runs.glob("*/"))


def complete_models() -> list[str]:
    from rnnlm.registry.mlflow_database import local_model_names

    return [*local_model_names(find_home()), *complete_runs()]


def complete_settings(incomplete: str) -> list[str]:
    """`model.hidden_size=` for each field that begins so."""
    return [f"{path}=" for path in setting_paths(PipelineConfig) if path.startswith(incomplete)]


def setting_paths(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all fields that --set takes."""
    for name, field in section.model_fields.items():
        section_below: Any = field.annotation
        if is_section(section_below):
            yield from setting_paths(section_below, f"{prefix}{name}.")
        elif prefix:
            yield f"{prefix}{name}"


Model = Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_models)]
Corpus = Annotated[
    str | None, typer.Option("--corpus", metavar="SOURCE", help=CORPUS_HELP, autocompletion=complete_corpora)
]
RequiredCorpus = Annotated[
    str, typer.Option("--corpus", metavar="SOURCE", help=CORPUS_HELP, autocompletion=complete_corpora)
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change one setting, such as model.hidden_size=256; repeatable (rnnlm settings lists them).",
        autocompletion=complete_settings,
        rich_help_panel=PIPELINE,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help=f"Settings to start from: {', '.join(read_presets())}. Default: default.",
        autocompletion=complete_presets,
        rich_help_panel=PIPELINE,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="A YAML file with settings, over the preset's.", rich_help_panel=PIPELINE
    ),
]
Minutes = Annotated[
    str | None,
    typer.Option(
        "--minutes",
        metavar="N",
        help="Minutes of training: size and number of epochs are chosen for them.",
        rich_help_panel=PIPELINE,
    ),
]
Epochs = Annotated[
    str | None,
    typer.Option("--epochs", metavar="N", help="Passes over the training text.", rich_help_panel=PIPELINE),
]
HiddenSize = Annotated[
    str | None,
    typer.Option("--hidden-size", metavar="N", help="Number of units per layer.", rich_help_panel=PIPELINE),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="ENGINE", help=EngineConfig.model_fields["engine"].description, rich_help_panel=PIPELINE
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="ADDRESS",
        help=EngineConfig.model_fields["ray_address"].description,
        rich_help_panel=PIPELINE,
    ),
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        metavar="STAGE",
        help=f"Rerun a stage: {', '.join(STAGES)}; repeatable.",
        autocompletion=lambda: list(STAGES),
        rich_help_panel=PIPELINE,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Hash all stored files again, also those whose size and times have not changed.",
        rich_help_panel=PIPELINE,
    ),
]


def pipeline_config(
    corpus: str | None,
    preset: str | None,
    file: Path | None,
    overrides: list[str] | None,
    force: list[str] | None,
    minutes: str | None = None,
    epochs: str | None = None,
    hidden_size: str | None = None,
    engine: str | None = None,
    ray_address: str | None = None,
) -> PipelineConfig:
    """The configuration that the options above describe; --set wins over the others."""
    short: dict[str, Any] = {
        "training.minutes": minutes,
        "training.epochs": epochs,
        "model.hidden_size": hidden_size,
        "sequences.engine": engine,
        "sequences.ray_address": ray_address,
    }
    named = [f"{path}={value}" for path, value in short.items() if value is not None]
    return with_checked_source(build_config(preset, [*named, *(overrides or ())], corpus, force or (), file))


def dataset_config(corpus: str | None, overrides: list[str] | None, *defaults: str) -> PipelineConfig:
    """The default preset with `defaults` and then --set, for commands that only need a dataset."""
    return with_checked_source(build_config(None, [*defaults, *(overrides or ())], corpus))


def with_checked_source(config: PipelineConfig) -> PipelineConfig:
    """Refuse a corpus that cannot be right here, before a Prefect server is started for it."""
    from rnnlm.corpora.download import check_source
    from rnnlm.home import find_home

    check_source(config.corpus, find_home())
    return config


def show_warnings() -> None:
    """Show the library's warnings on standard error, for commands that run outside Prefect."""
    logging.basicConfig(level=logging.WARNING, format="rnnlm: %(message)s", stream=sys.stderr)
