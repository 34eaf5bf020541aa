"""Running a flow from the command line: on the configured server, or on a temporary one in the home."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from flows.operations.console import quiet_user_errors, show_library_lines
from flows.operations.dead_runs import settle_dead_runs
from flows.operations.temporary_server import temporary_server
from rnnlm.config import Section
from rnnlm.home import Home

C = TypeVar("C", bound=Section)
R = TypeVar("R")


def run_flow(home: Home, flow: Callable[[C], R], config: C) -> R:
    """The flow's result. Errors leave it as they were raised; the console shows no traceback of ours."""
    from prefect.settings import get_current_settings

    quiet_user_errors()
    show_library_lines()
    with contextlib.ExitStack() as stack:
        if get_current_settings().api.url is None:  # neither the environment nor a profile names a server
            migrate_database(home)
            stack.enter_context(temporary_server())
        settle_dead_runs(home)
        return flow(config)


def migrate_database(home: Home) -> None:
    """Create Prefect's SQLite file once, under a lock: two temporary servers migrating it together fail."""
    made = home.prefect / "prefect.db"
    with home.lock("prefect"):
        if made.exists():
            return
        from prefect.server.database import provide_database_interface

        asyncio.run(provide_database_interface().create_db())
