"""Run a flow from the command line, on the configured Prefect server or on a temporary one."""

import contextlib
import logging
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flows.operations.console import Detail, set_up_console, show_library_lines
from flows.operations.dead_runs import settle_dead_runs
from flows.operations.prefect_environment import LOCAL_API
from flows.operations.prefect_query import access_problem, health_problem
from flows.operations.temporary_server import drain_prefect_workers, temporary_server
from rnnlm.errors import ConfigError
from rnnlm.runtime.garbage_collection import collect_as_usual
from rnnlm.storage.disk_errors import refuse_damaged_database
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import check_addresses, import_mlflow

logger = logging.getLogger(__name__)
FlowResult = TypeVar("FlowResult")


def run_flow(
    home: Home, flow: Callable[..., FlowResult] | str, *arguments: Any, detail: Detail = Detail.ALL, **settings: Any
) -> FlowResult:
    """Run a flow and return its result. Its exceptions are raised again, without a traceback on the console.

    `flow` is the flow or its place, such as flows.pipeline_flow:pipeline_flow. A place saves time, because the flow and
    its libraries are imported while the temporary server starts.

    If the connection to the configured server is lost, the flow runs again on a temporary server. This takes only
    seconds, because finished stages are skipped and training resumes from its checkpoint.
    """
    check_addresses()
    from httpx import TransportError
    from prefect.settings import get_current_settings

    set_up_console(detail)
    # The address is None if neither the environment nor a profile names a server.
    server = get_current_settings().api.url
    problem = access_problem(server) if server else ""
    if problem and server != LOCAL_API:
        raise ConfigError(
            f"PREFECT_API_URL={server}: no Prefect server answers ({problem});\nstart one, or unset PREFECT_API_URL"
        )
    if problem:  # The address comes from `rnnlm env`, but no server is running there.
        logger.warning("no Prefect server answers at %s (%s), so the run uses a temporary server", server, problem)
    elif server:
        try:
            loaded = load_flow(flow, detail)  # Loading the flow sets up logging, which must precede settle_or_warn().
            settle_or_warn(home)
            return loaded(*arguments, **settings)
        except TransportError:
            if not health_problem(server):
                raise
        logger.warning(
            "the Prefect server at %s is gone; finished work is kept, and a temporary server runs the rest", server
        )
        drain_prefect_workers(seconds=1.0)  # Stop Prefect's threads, so that new ones use the new address.
    with home_server(home, lambda: load_flow(flow, detail)):
        settle_or_warn(home)
        return load_flow(flow, detail)(*arguments, **settings)


def load_flow(flow: Callable[..., FlowResult] | str, detail: Detail) -> Callable[..., FlowResult]:
    """Return the flow, which is imported if its place is given. MLflow is imported too, because every flow needs it."""
    import_mlflow()
    found = pkgutil.resolve_name(flow) if isinstance(flow, str) else flow
    # Logging is set up again, because the import of Prefect's flows has set Prefect's settings.
    set_up_console(detail)
    show_library_lines()
    collect_as_usual()
    return found


@contextlib.contextmanager
def home_server(home: Home, meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Run a temporary server on the rnnlm home's database inside the block. Call `meanwhile` while the server starts.

    Servers of several commands start one after the other. Each of them creates or migrates tables and registers
    Prefect's block types, which fails if another server does so at the same time.
    """
    refuse_damaged_database(home.prefect / "prefect.db")
    with contextlib.ExitStack() as stack:
        with home.lock("prefect"):
            stack.enter_context(temporary_server(meanwhile))
            home.keep_private()
        yield


def settle_or_warn(home: Home) -> None:
    """Set a final state for dead runs. If this fails, log a warning, so that the new run can still start."""
    try:
        settle_dead_runs(home)
    except Exception as error:
        logger.warning("could not settle runs that were killed earlier: %s", error)
