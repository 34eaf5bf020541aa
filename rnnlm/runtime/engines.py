"""Engines for independent calls: this process, unless the library's caller gives another one.

The flows give Prefect's task runners: tasks/operations/task_runners.py.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class Result(Protocol):
    """The result of a call that may still be running."""

    def result(self) -> Any: ...


Submit = Callable[..., Result]  # (function, *arguments) → its result. All must be picklable.


@dataclass(frozen=True)
class Engine:
    submit: Submit
    workers: int  # number of calls that run at the same time


OpenEngine = Callable[[int], AbstractContextManager[Engine]]  # given the number of workers that are worth their start


@contextmanager
def in_this_process(worth: int) -> Iterator[Engine]:
    """Give an engine whose calls run when they are submitted."""

    def run_here(function: Callable[..., Any], *arguments: Any) -> Result:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    yield Engine(run_here, 1)


def results_in_order(
    engine: Engine, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the arguments and the result of each call, in order. Only as many calls wait as keep every worker busy."""
    waiting: deque[tuple[tuple[Any, ...], Result]] = deque()
    for arguments in calls:
        waiting.append((arguments, engine.submit(function, *arguments)))
        if len(waiting) > 2 * engine.workers:
            oldest, result = waiting.popleft()
            yield oldest, result.result()
    for oldest, result in waiting:
        yield oldest, result.result()
