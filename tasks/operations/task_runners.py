"""Engines that call the library's functions as task runs of Prefect's task runners."""

import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import FlowRunContext
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner
from prefect.utilities.callables import get_call_parameters

from rnnlm.config import EngineConfig
from rnnlm.errors import EngineError, is_worth_a_retry
from rnnlm.runtime.engines import Engine, OpenEngine, Result, in_this_process
from rnnlm.runtime.extras import need_extra

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


def engine_of(task: Task[..., Any], config: EngineConfig) -> OpenEngine:
    """Return a function that opens the configured engine for a task."""

    def open_engine(worth: int) -> contextlib.AbstractContextManager[Engine]:
        if config.engine == "ray":
            return ray_cluster(task, config.ray_address)
        return local_processes(task, config.processes, worth)

    return open_engine


@contextlib.contextmanager
def local_processes(task: Task[..., Any], processes: int | None, worth: int) -> Iterator[Engine]:
    """Yield an engine that runs the task in processes on this machine, or in this process if one is enough.

    Outside a flow run, this process runs the calls without task runs. `processes` is the number of processes, or None
    for one per CPU core.
    """
    count = min(processes or os.cpu_count() or 1, worth)
    outside = FlowRunContext.get() is None
    if outside or count == 1:
        with in_this_process(worth) as engine:
            yield engine if outside else Engine(partial(engine.submit, task), 1)
        return
    # The processes read from the pipe and end when its other end is closed. They do not inherit the other end, because
    # they are spawned.
    reader, writer = multiprocessing.get_context("spawn").Pipe(duplex=False)
    try:
        with reader, ProcessPoolTaskRunner(count, initializer=end_with_parent, initargs=(reader,)) as runner:
            try:
                yield Engine(submission(runner, task), count)
            except BaseException:
                writer.close()  # Closing the pipe ends processes whose calls are still running.
                raise
    except BrokenExecutor as error:
        raise EngineError(
            f"{task.name}: a process ended, perhaps because memory ran out;\n"
            "run again (finished work is kept), with fewer processes if it happens again"
        ) from error
    finally:
        writer.close()


def end_with_parent(parent: Connection) -> None:
    """End this process as soon as its parent has closed the pipe or has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Only the parent handles SIGINT.
    # The process exits without a teardown; console_entry() of flows/command_line.py gives the reason.
    atexit.register(os._exit, 0)

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            parent.recv()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def ray_cluster(task: Task[..., Any], address: str | None) -> Iterator[Engine]:
    """Yield an engine that runs the task on a Ray cluster whose nodes can access the same files."""
    need_extra("ray", "engine=ray")
    import ray
    from prefect_ray import RayTaskRunner
    from ray.exceptions import RayError

    try:
        # Prefect already receives the workers' log lines, so Ray does not show them.
        with RayTaskRunner(address, {"log_to_driver": False, "logging_level": logging.WARNING}) as runner:
            yield Engine(submission(runner, task), max(1, int(ray.cluster_resources().get("CPU", 1))))
    except (RayError, ConnectionError) as error:
        raise EngineError(
            f"{task.name}: Ray failed: {str(error).splitlines()[0]};\nrun again (finished work is kept)"
        ) from error


def submission(runner: TaskRunner[Any], task: Task[..., Any]) -> Callable[..., Result]:
    """Return a function that submits the task to the runner. The task's parameters are a function and its arguments."""

    def submit(function: Callable[..., Any], *arguments: Any) -> Result:
        result: Result = runner.submit(task, get_call_parameters(task.fn, (function, *arguments), {}))
        return result

    return submit


def has_failed_by_chance(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Return True if Prefect should retry a failed task."""
    return is_worth_a_retry(state.result(raise_on_failure=False))


def piece_task(name: str) -> Callable[[Callable[Parameters, Value]], Task[Parameters, Value]]:
    """Return a decorator that converts a function to a task for one part of the work.

    The task is retried twice unless only the user can resolve the error. `name` is the name of a task run, with the
    function's parameters in braces.
    """
    return task(
        task_run_name=name,
        cache_policy=NO_CACHE,
        retries=2,
        retry_delay_seconds=10,
        retry_condition_fn=has_failed_by_chance,
    )
