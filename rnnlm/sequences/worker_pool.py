"""A pool of processes that work from any script and end with their parent.

Not concurrent.futures.ProcessPoolExecutor: spawn and forkserver import the caller's main module, so a script without a
`__main__` guard starts itself again; fork copies locks that the caller's threads hold; and its workers outlive a parent
that is killed. These workers read pickled calls from standard input, which ends with the parent however it ends.
"""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from rnnlm.errors import DatasetError
from rnnlm.subprocess_environment import python_path

Submit = Callable[..., "Future[Any]"]  # (function, *arguments) → future result


@contextlib.contextmanager
def workers(count: int, purpose: str, advice: str) -> Iterator[Submit]:
    """Yield submit(function, *arguments) → Future, run by `count` processes. Everything must be picklable.

    purpose, advice: for the message about a process that died, such as "tokenizing". The processes are killed if the
    caller's block fails or is interrupted.
    """
    # -P: do not import from the caller's working directory
    command = [sys.executable, "-P", "-m", "rnnlm.sequences.worker_pool"]
    environment = os.environ | {"PYTHONPATH": python_path()}
    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        processes = []
        for _ in range(count):
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            processes.append(stack.enter_context(process))  # at the end, Popen closes its standard input and waits
            idle.put(process)

        def call(function: Callable[..., Any], *arguments: Any) -> Any:
            process = idle.get()
            try:
                return remote_call(process, function, arguments)
            except ProcessEndedError as error:
                raise DatasetError(f"a {purpose} process {error};\n{advice}") from error
            finally:
                idle.put(process)

        threads = ThreadPoolExecutor(count)
        stack.callback(threads.shutdown, cancel_futures=True)
        try:
            yield lambda function, *arguments: threads.submit(call, function, *arguments)
        except BaseException:
            for process in processes:
                process.kill()
            raise


class ProcessEndedError(Exception):
    """A process ended during a call."""


def remote_call(process: subprocess.Popen[bytes], function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The call's result or its exception; ProcessEndedError if the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump((function, arguments), process.stdin)
        process.stdin.flush()
        succeeded, result = pickle.load(process.stdout)
    except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
        with contextlib.suppress(OSError):
            process.stdin.close()  # with what it did not read
        raise ProcessEndedError(f"ended with exit code {process.wait()}, perhaps because memory ran out") from error
    if not succeeded:
        raise result
    return result


def answer_calls() -> None:
    """Answer calls until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # standard output is for answers: prints go to standard error
    while True:
        try:
            function, arguments = pickle.load(calls)
        except EOFError:
            return
        try:
            answer = (True, function(*arguments))
        except Exception as error:
            answer = (False, error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    answer_calls()
