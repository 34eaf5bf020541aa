"""Start a flow run: show the library's log lines, lock a file while it lives, complete its configuration."""

import atexit
import fcntl
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.states import Failed

from flows.operations.console import shorten_own_errors, show_library_lines
from flows.operations.run_limits import is_worth_a_retry
from flows.operations.run_locks import lock_file, unlocked_name
from rnnlm.config import Section
from rnnlm.errors import RnnlmError
from rnnlm.home import find_home
from rnnlm.presets import change_preset
from rnnlm.tracking.mlflow_store import check_addresses

ConfigT = TypeVar("ConfigT", bound=Section)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
HELD_LOCKS: list[int] = []  # file descriptors that hold the locks of this process's flow runs until it ends


def plain_failures(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorator of a flow's function: an error that a person must mend is the run's state in its own words.

    Prefect would write "Flow run encountered an exception: CorpusError: …", and log a traceback. Callers get the error
    as an exception all the same. What may be retried stays with Prefect, which counts the retries.
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


def start_flow_run(config: ConfigT) -> ConfigT:
    """Lock the run's file and return the configuration to run with: the deployment's, overridden by `config`."""
    show_library_lines()  # in a worker's process too
    shorten_own_errors()
    hold_run_lock()
    check_addresses()  # else the run would be trained, and then not registered
    if os.environ.get("PREFECT__FLOW_RUN_ID"):  # a worker started this process, in a temporary folder
        os.chdir(find_home().root)  # relative paths of a deployment are relative to the home
        atexit.register(silence_stderr)
    return with_deployment_values(config)


def silence_stderr() -> None:
    """Redirect standard error to /dev/null at the end of the process.

    Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive; nanobind would report them as
    leaked in fifty lines.
    """
    sys.stderr.flush()
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), 2)


def hold_run_lock() -> None:
    """Lock the flow run's file until this process ends; run_locks.py says why."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    home = find_home()
    final = lock_file(home, context.flow_run.id)
    home.make(final.parent)
    partial = unlocked_name(final)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    partial.replace(final)  # renamed only once locked: under its final name, an unlocked file means a dead run
    HELD_LOCKS.append(descriptor)


def with_deployment_values(config: ConfigT) -> ConfigT:
    """Merge the run's own values over its deployment's, section by section. Other runs get `config` unchanged.

    Prefect itself would replace the deployment's `config` as a whole.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        deployed = client.read_deployment(run.deployment_id).parameters
    ours, given = deployed.get("config", {}), run.parameters.get("config", {})
    deployed_preset = ours.get("preset", "default")
    if given.get("preset", deployed_preset) != deployed_preset:
        return type(config).model_validate(change_preset(ours, given))
    return type(config).model_validate(merged(ours, given))


def merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """`override` over `base`; two dictionaries under one name are merged in the same way."""
    values = base | override
    for name in base.keys() & override.keys():
        if isinstance(base[name], dict) and isinstance(override[name], dict):
            values[name] = merged(base[name], override[name])
    return values
