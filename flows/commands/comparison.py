"""Compare kinds of models on the same tokens, or registered models on a text."""

from typing import Annotated

import typer

from flows.commands.command import FlowSession
from flows.commands.option_groups import fields, some_of
from flows.commands.options import PipelineOptions, RequiredCorpus
from rnnlm.config import CorpusConfig
from rnnlm.errors import ConfigError
from rnnlm.extensions.comparison.comparison_config import CompareConfig, RegisteredModels

HEADING = "Measure"
TRAINING_OPTIONS = fields(
    *("models", "match", "budget", "seeds", "trials", "trial_share", "target_perplexity", "cost_seconds")
)
# Options of the pipeline. `minutes` is missing, because --match seconds --budget replaces it, and `promote`, because a
# comparison registers no model.
PIPELINE_SETTINGS = ("epochs", "hidden_size", "engine", "ray_address")


def compare_command(
    session: FlowSession,
    comparison: Annotated[CompareConfig, TRAINING_OPTIONS],
    registered: Annotated[RegisteredModels, fields("against")],
    corpus: RequiredCorpus,
    options: Annotated[PipelineOptions, some_of("preset", "config", *PIPELINE_SETTINGS, "set")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Measure the speed again, and write the report again. Trained runs are kept."),
    ] = False,
) -> None:
    """Compare kinds of models on the same tokens, or registered models on a text.

    Every trial and seed is an ordinary training run. An interrupted comparison therefore resumes where it stopped.

    rnnlm compare --corpus my-text.txt --preset smoke --models elman,lstm,kneser-ney --seeds 1
    rnnlm compare --corpus ptb/ --preset ptb --match parameters --budget 5000000 --trials 4
    rnnlm compare --corpus my-text.txt --against rnnlm-python-docs,rnnlm-ptb@challenger
    """
    pipeline = options.pipeline_config(corpus)
    if registered.against:
        for field in comparison.model_fields_set:
            option = TRAINING_OPTIONS.names[field]
            raise ConfigError(f"{option} needs training, but --against trains no model; leave out one of the two")
        compare_registered(session, registered.against, pipeline.corpus)
        return
    found = session.run_flow(
        "flows.comparison_flow:compare_flow", comparison.model_copy(update={"pipeline": pipeline}), force
    )
    from rnnlm.extensions.comparison.comparison_page import comparison_text

    session.print_result(comparison_text(found), found)


def compare_registered(session: FlowSession, names: tuple[str, ...], corpus: CorpusConfig) -> None:
    from rnnlm.registry.model_lookup import model_folder

    folders = {name: model_folder(session.home, name) for name in names}
    from rnnlm.extensions.comparison.comparison_page import registered_text
    from rnnlm.extensions.comparison.registered_models import compare_on_text

    found = compare_on_text(session.home, folders, corpus)
    session.print_result(registered_text(found), found)
