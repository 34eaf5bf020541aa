"""Run small experiments on gradients, memory and learning with `rnnlm probe`."""

from typing import Annotated

import typer

from flows.commands.command import FlowSession
from flows.commands.option_groups import fields
from flows.commands.options import Corpus, Set, dataset_config
from rnnlm.extensions.probes.probe_config import AbilitiesConfig, EchoConfig, GradientProbeConfig
from rnnlm.extensions.probes.probe_page import abilities_page, echo_page, gradients_page

HEADING = "Measure"
# Gradients are measured on continuous text, because sentences are shorter than the measured distances.
RUNNING_TEXT = "sequences.mode=stream"
Remeasure = Annotated[bool, typer.Option("--force", help="Measure again even if results are stored.")]


def probe_command() -> None:
    """Run a small experiment on gradients, memory or learning."""


def probe_gradients_command(
    session: FlowSession,
    config: Annotated[
        GradientProbeConfig,
        fields(
            *("layers", "steps", "rows", "factor", "trained_steps", "learning_rate", "seed"),
            hidden="hidden_size",
        ),
    ],
    corpus: Corpus = None,
    set: Set = None,
    force: Remeasure = False,
) -> None:
    """Measure how far back gradients reach in networks of each kind.

    rnnlm probe gradients --hidden 64 --steps 40
    """
    pipeline = dataset_config(corpus, set, RUNNING_TEXT)
    found = session.run_flow("flows.probes_flow:probe_gradients_flow", config, pipeline, force)
    value = {"curves": found.curves, "picture": str(found.picture)}
    session.print_result(gradients_page(found).text(), value)


def probe_echo_command(
    session: FlowSession,
    config: Annotated[
        EchoConfig,
        fields(
            *("kinds", "distances", "symbols", "training_steps", "learning_rate", "seed"),
            nonlinearity="nonlinearities",
            initialization="initializations",
            hidden="hidden_size",
        ),
    ],
    force: Remeasure = False,
) -> None:
    """Measure how long networks of each kind remember a symbol.

    rnnlm probe echo --distances 1,5,20 --nonlinearity relu
    """
    found = session.run_flow("flows.probes_flow:probe_echo_flow", config, force)
    value = {"scores": found.scores, "picture": str(found.picture)}
    session.print_result(echo_page(found).text(), value)


def probe_abilities_command(
    session: FlowSession,
    config: Annotated[
        AbilitiesConfig,
        fields(
            *("kinds", "tasks", "trained_length", "lengths", "layers", "parameters", "training_steps"),
            *("learning_rate", "seeds", "processes", "engine", "ray_address"),
            no_diagonal="diagonal",
        ),
    ],
    force: Remeasure = False,
) -> None:
    """Measure what networks of each kind learn of synthetic tasks, on short rows and on longer ones.

    An interrupted probe resumes where it stopped.

    rnnlm probe abilities --kinds elman,lstm --tasks parity --seeds 1
    """
    found = session.run_flow("flows.probes_flow:probe_abilities_flow", config, force)
    files = {"picture": str(found.picture), "table": str(found.table)}
    value = {"scores": found.scores, **files}
    session.print_result(abilities_page(found).text(), value)
