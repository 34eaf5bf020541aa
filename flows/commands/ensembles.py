"""Average the probabilities of several networks with `rnnlm mix`."""

from typing import Annotated

import typer

from flows.commands.command import FlowSession
from rnnlm.config.validation import validated

HEADING = "Models"


def mix_command(
    session: FlowSession,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Models to average, each given as NAME, NAME@ALIAS, NAME/3 or a run's id."
        ),
    ],
) -> None:
    """Average the probabilities of several networks, and register them as one model.

    All networks must have been trained on the same dataset. The weights of the networks and of the n-gram model in the
    mixture are fitted on the validation split. The ensemble needs the time and the memory of all its networks.

    rnnlm mix rnnlm-python-docs@champion rnnlm-python-docs@challenger
    """
    from rnnlm.extensions.ensembles.ensemble_run import MixConfig

    config = validated(MixConfig, {"models": models})
    mixed = session.run_flow("flows.ensembles_flow:mix_flow", config)
    from rnnlm.reports.json_values import run_value
    from rnnlm.reports.pipeline_page import mixed_summary
    from rnnlm.sequences.dataset_lookup import dataset_of_run

    session.print_result(mixed_summary(mixed), run_value(mixed, dataset_of_run(session.home, mixed.run)))
