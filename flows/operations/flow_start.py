"""What every flow does first: it shows the library's lines, says that it lives, and completes its configuration."""

import atexit
import fcntl
import os
import sys
from pathlib import Path
from typing import Any, TypeVar

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from flows.operations.console import show_library_lines
from flows.operations.dead_runs import lock_file, unlocked_name
from rnnlm.config import Section
from rnnlm.home import find_home

C = TypeVar("C", bound=Section)
ALIVE: list[int] = []  # descriptors that hold the locks of this process's flow runs until it ends


def begin(config: C) -> C:
    """The configuration to go on with, in a flow run that can be seen to live."""
    show_library_lines()  # in a worker's process too
    hold_run_lock()
    if os.environ.get("PREFECT__FLOW_RUN_ID"):  # a worker started this process
        atexit.register(say_nothing_more)
    return over_deployment(config)


def say_nothing_more() -> None:
    """Close standard error at the end of the process.

    Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive, of which nanobind then complains
    in fifty lines.
    """
    sys.stderr.flush()
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)


def hold_run_lock() -> None:
    """Lock a file for as long as this process lives: see dead_runs.py."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    home = find_home()
    final = lock_file(home, context.flow_run.id)
    home.make(final.parent)
    partial = unlocked_name(final)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    partial.replace(final)  # under this name it is never there unlocked while the process lives
    ALIVE.append(descriptor)


def over_deployment(config: C) -> C:
    """The deployment's config with the run's own values over it, section by section; `config` in any other run.

    Prefect itself would replace the deployment's `config` as a whole.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        deployed = client.read_deployment(run.deployment_id).parameters
    return type(config).model_validate(merged(deployed.get("config", {}), run.parameters.get("config", {})))


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` over `below`; where both have a dictionary these are merged in the same way."""
    values = below | above
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            values[name] = merged(below[name], above[name])
    return values
