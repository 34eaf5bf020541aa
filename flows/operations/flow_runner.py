"""Running a flow from the command line: on the configured server, or on a temporary one in the home."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from flows.operations.console import quiet_user_errors, show_library_lines
from flows.operations.dead_runs import settle_dead_runs
from flows.operations.temporary_server import send_what_waits, temporary_server
from rnnlm.config import Section
from rnnlm.errors import ConfigError
from rnnlm.home import Home

logger = logging.getLogger(__name__)
C = TypeVar("C", bound=Section)
R = TypeVar("R")


def run_flow(home: Home, flow: Callable[[C], R], config: C) -> R:
    """The flow's result. Errors leave it as they were raised; the console shows no traceback of ours.

    Where the configured server is lost on the way, the flow runs again on a temporary one: what is done is kept, so
    that takes seconds.
    """
    from httpx import TransportError
    from prefect.settings import get_current_settings

    quiet_user_errors()
    show_library_lines()
    server = get_current_settings().api.url  # None: neither the environment nor a profile names one
    if server is None:
        return run_alone(home, flow, config)
    if not answers(server):
        raise ConfigError(f"PREFECT_API_URL={server}: no Prefect server answers; start it, or unset PREFECT_API_URL")
    try:
        settle_or_warn(home)
        return flow(config)
    except TransportError:
        if answers(server):
            raise
    logger.warning("the Prefect server at %s was lost; what is done is kept, the rest is done without it", server)
    send_what_waits(seconds=1.0)  # nowhere: so that what sends now will ask for the new address
    return run_alone(home, flow, config)


def run_alone(home: Home, flow: Callable[[C], R], config: C) -> R:
    """Run the flow on a temporary server in the home."""
    migrate_database(home)
    with temporary_server():
        settle_or_warn(home)
        return flow(config)


def settle_or_warn(home: Home) -> None:
    """Settle what died before. No failure of that keeps a run from beginning."""
    try:
        settle_dead_runs(home)
    except Exception as error:
        logger.warning("runs that were killed before were not settled: %s", error)


def answers(server: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{server.rstrip('/')}/health", timeout=10).status_code < 500
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def migrate_database(home: Home) -> None:
    """Create Prefect's SQLite file once, under a lock: two temporary servers migrating it together fail."""
    made = home.prefect / "prefect.db"
    with home.lock("prefect"):
        if made.exists():
            return
        from prefect.server.database import provide_database_interface

        asyncio.run(provide_database_interface().create_db())
