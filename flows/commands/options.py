"""Arguments and options that several commands share, their shell completion, and the resulting configurations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from rnnlm.config import STAGES, EngineConfig, PipelineConfig, Promote, Section, changeable_settings
from rnnlm.config.preset_files import preset_files
from rnnlm.config.presets import SHORT_SETTINGS, build_config, is_section
from rnnlm.storage.home import find_home

CORPUS_HELP = "A catalogue name (rnnlm corpora), hf:OWNER/NAME[:CONFIG], a file, folder, glob or http(s) URL."
MODEL_HELP = (
    "A registered name (its champion), NAME@challenger, NAME/3, a run's id or folder. "
    "Default: the champion of the only registered model."
)


def complete_presets() -> list[str]:
    return list(preset_files())


def complete_corpora() -> list[str]:
    from rnnlm.corpora.catalogue import CATALOGUE

    return list(CATALOGUE)


def complete_runs() -> list[str]:
    return sorted(folder.name for folder in find_home().runs.glob("*/"))


def complete_models() -> list[str]:
    from rnnlm.registry.mlflow_database import local_model_names

    return [*local_model_names(find_home()), *complete_runs()]


def complete_settings(incomplete: str) -> list[str]:
    """Return completions such as `model.hidden_size=` for the fields that begin with the given text."""
    return [f"{path}=" for path in setting_paths(PipelineConfig) if path.startswith(incomplete)]


def setting_paths(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of all fields that can be set by --set."""
    for name, field in section.model_fields.items():
        section_below: Any = field.annotation
        if is_section(section_below):
            yield from setting_paths(section_below, f"{prefix}{name}.")
        elif prefix:
            yield f"{prefix}{name}"


def pipeline_option(option: str, metavar: str | None, text: str, completion: Any = None) -> Any:
    """Return an option that is listed under the heading of the pipeline's settings."""
    return typer.Option(
        option, metavar=metavar, help=text, autocompletion=completion, rich_help_panel="Pipeline settings"
    )


CORPUS = typer.Option("--corpus", metavar="SOURCE", help=CORPUS_HELP, autocompletion=complete_corpora)
SET_HELP = "Change one setting, such as model.hidden_size=256; repeatable (rnnlm settings lists them)."
PRESET_HELP = f"Settings to start from: {', '.join(preset_files())}. Default: default."
RESUME_HELP = (
    "Continue an unfinished run: its id, the start of it, or its folder. "
    f"Only --set {', '.join(changeable_settings())} may change it."
)
Model = Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_models)]
Corpus = Annotated[str | None, CORPUS]
RequiredCorpus = Annotated[str, CORPUS]
Set = Annotated[list[str] | None, pipeline_option("--set", "FIELD=VALUE", SET_HELP, complete_settings)]
Preset = Annotated[str | None, pipeline_option("--preset", "NAME", PRESET_HELP, complete_presets)]


@dataclass(frozen=True)
class PipelineOptions:
    """The options of commands that run the pipeline or a part of it. Each command selects some of them."""

    corpus: Corpus = None
    preset: Preset = None
    config: Annotated[
        Path | None,
        pipeline_option("--config", "FILE", "YAML file with settings that take precedence over the preset's."),
    ] = None
    minutes: Annotated[
        str | None,
        pipeline_option(
            "--minutes",
            "N",
            "Number of minutes of training. The size of the network and the number of epochs are chosen to suit it.",
        ),
    ] = None
    epochs: Annotated[str | None, pipeline_option("--epochs", "N", "Number of passes over the training split.")] = None
    hidden_size: Annotated[str | None, pipeline_option("--hidden-size", "N", "Number of units per layer.")] = None
    engine: Annotated[
        str | None, pipeline_option("--engine", "ENGINE", str(EngineConfig.model_fields["engine"].description))
    ] = None
    ray_address: Annotated[
        str | None,
        pipeline_option("--ray-address", "ADDRESS", str(EngineConfig.model_fields["ray_address"].description)),
    ] = None
    promote: Annotated[
        str | None,
        pipeline_option(
            "--promote",
            "WHEN",
            "When the model may become champion: never, if_better, by_policy.",
            lambda: get_args(Promote),
        ),
    ] = None
    set: Set = None
    force: Annotated[
        list[str] | None,
        pipeline_option(
            "--force", "STAGE", f"Stage that runs again: {', '.join(STAGES)}; repeatable.", lambda: list(STAGES)
        ),
    ] = None
    verify: Annotated[
        bool,
        pipeline_option(
            "--verify",
            None,
            "Read the source and hash all stored files again, also those whose size and times have not changed.",
        ),
    ] = False
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help=RESUME_HELP, autocompletion=complete_runs)
    ] = None

    def pipeline_config(self, corpus: str | None = None) -> PipelineConfig:
        """Return the configuration that the options describe.

        The settings of --set take precedence over the other options. If `corpus` is given, it replaces --corpus.
        """
        named = [
            f"{path}={getattr(self, name)}" for name, path in SHORT_SETTINGS.items() if getattr(self, name) is not None
        ]
        settings = [*named, *(self.set or ())]
        return with_checked_source(
            build_config(
                self.preset, settings, self.corpus if corpus is None else corpus, self.force or (), self.config
            )
        )


def dataset_config(corpus: str | None, overrides: list[str] | None, *defaults: str) -> PipelineConfig:
    """Return the default preset, changed by `defaults` and then by --set.

    It is used by commands that need only a dataset.
    """
    return with_checked_source(build_config(None, [*defaults, *(overrides or ())], corpus))


def with_checked_source(config: PipelineConfig) -> PipelineConfig:
    """Return the configuration.

    Raise an error, before a server is started, if its source is invalid on this machine.
    """
    from rnnlm.corpora.download import check_source

    check_source(config.corpus, find_home())
    return config
