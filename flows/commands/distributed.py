"""Train as another node of a distributed run, with `rnnlm join`."""

import logging
from typing import Annotated

import typer

from flows.commands.command import Session, log_to_terminal

HEADING = "Servers"


def join_command(
    session: Session,
    rendezvous: Annotated[
        str,
        typer.Argument(
            metavar="HOST:PORT", help="The run's training.distributed.rendezvous. Both nodes must share RNNLM_HOME."
        ),
    ],
) -> None:
    """Train as another node of a run started with training.distributed.rendezvous.

    rnnlm join node-0:29500
    """
    log_to_terminal("%(message)s", anew=True)
    logging.getLogger("rnnlm").setLevel(logging.INFO)
    from rnnlm.extensions.distributed import join

    run_id = join.join(session.home, rendezvous)
    session.print_result(f"run        {session.home.runs / run_id}", {"run_id": run_id})
