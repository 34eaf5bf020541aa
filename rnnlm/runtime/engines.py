"""Engines that run independent function calls.

By default, this process runs the calls. A caller of the library may provide another engine. The flows provide Prefect's
task runners; see tasks/operations/task_runners.py.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class Result(Protocol):
    """The result of a submitted function call, which may still be running."""

    def result(self) -> Any: ...


# A function that submits a function with its arguments, and returns a Result. The function and the arguments must be
# picklable.
Submit = Callable[..., Result]


@dataclass(frozen=True)
class Engine:
    submit: Submit
    workers: int  # The number of calls that run at the same time.


# A function that returns an Engine as a context. Its argument is the largest number of workers that would make the work
# faster.
OpenEngine = Callable[[int], AbstractContextManager[Engine]]


@contextmanager
def in_this_process(worth: int) -> Iterator[Engine]:
    """Yield an engine that runs each call in this process when it is submitted."""

    def run_here(function: Callable[..., Any], *arguments: Any) -> Result:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    yield Engine(run_here, 1)


def results_in_order(
    engine: Engine, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the arguments and the result of each call, in the order of `calls`.

    Only as many calls are submitted in advance as are needed to keep all workers busy.
    """
    waiting: deque[tuple[tuple[Any, ...], Result]] = deque()
    for arguments in calls:
        waiting.append((arguments, engine.submit(function, *arguments)))
        if len(waiting) > 2 * engine.workers:
            oldest, result = waiting.popleft()
            yield oldest, result.result()
    for oldest, result in waiting:
        yield oldest, result.result()
