"""Start a flow run: set up its logging, lock the run's file, and complete the run's configuration."""

import atexit
import functools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from prefect import Flow, flow
from prefect.artifacts import create_link_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.states import Failed

from flows.operations.console import shorten_own_errors, show_library_lines
from flows.operations.run_configuration import ConfigT, configuration_of_run
from flows.operations.run_labels import flow_run_label
from flows.operations.run_locks import hold_until_end
from rnnlm.errors import RnnlmError, close_to, is_worth_a_retry
from rnnlm.storage.home import find_home
from rnnlm.tracking.mlflow_store import check_addresses

logger = logging.getLogger(__name__)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def rnnlm_flow(name: str) -> Callable[[Callable[Parameters, Result]], Flow[Parameters, Result]]:
    """Return a decorator that converts a function to a Prefect flow. flow_run_label() names its runs.

    Errors of rnnlm appear without a traceback.
    """

    def decorated(function: Callable[Parameters, Result]) -> Flow[Parameters, Result]:
        settings = flow(name=name, flow_run_name=flow_run_label, on_crashed=[fail_with_unknown_parameters])
        return settings(plain_failures(function))

    return decorated


def fail_with_unknown_parameters(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Set a crashed run to Failed if it has an unknown parameter, because crashed runs are started again.

    Prefect's API accepts parameters of any name. If a name is unknown, the run's process ends with "a general error"
    before the flow begins.
    """
    known = flow.parameters.properties
    if unknown := sorted(flow_run.parameters.keys() - known.keys()):
        hints = "".join(close_to(name, known) for name in unknown)
        message = f"unknown parameters: {', '.join(unknown)}; expected {', '.join(known)}{hints}"
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, Failed(message=message), force=True)


def plain_failures(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a flow's function that converts an RnnlmError to a Failed state with the error's own message.

    Prefect would write "Flow run encountered an exception: CorpusError: …" and log a traceback. Callers still get the
    error as an exception. An error that may be retried is raised, because Prefect counts the retries.
    """

    @functools.wraps(function)
    def run(*arguments: Parameters.args, **settings: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **settings)
        except RnnlmError as error:
            if is_worth_a_retry(error):
                raise
            return cast(Result, Failed(message=str(error), data=error))

    return run


def start_flow_run(config: ConfigT, **choices: Any) -> ConfigT:
    """Lock the run's file, and return the run's configuration. configuration_of_run() explains the arguments."""
    show_library_lines()  # Prefect sets up the logging of a worker's process without rnnlm's lines.
    shorten_own_errors()
    hold_run_lock()
    # A wrong MLflow address is reported before training, because the trained model could not be registered there.
    check_addresses()
    if os.environ.get("PREFECT__FLOW_RUN_ID"):  # Prefect's worker has started this process in a temporary folder.
        settle_in_home()
    return configuration_of_run(config, **choices)


def settle_in_home() -> None:
    """Make the rnnlm home the current folder, for relative paths in a deployment.

    Suppress error output at the end of the process.
    """
    os.chdir(find_home().root)
    atexit.register(silence_stderr)


def silence_stderr() -> None:
    """Redirect standard error to /dev/null at the end of the process.

    Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive, which nanobind would report as
    leaks in fifty lines.
    """
    sys.stderr.flush()
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), 2)


def hold_run_lock() -> None:
    """Lock the flow run's file until this process ends; see run_locks.py."""
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None:
        hold_until_end(find_home(), context.flow_run.id)


def link_to_mlflow(run_url: str | None) -> None:
    """Show the URL of the MLflow run on the flow run's page. If the URL is None, do nothing."""
    if run_url:
        create_link_artifact(
            run_url, "The comparison in MLflow", key="mlflow-run", description="Figures and plot in MLflow"
        )
