"""Other processes that call functions of ours: plain ones, which import nothing of the caller's and end with it.

multiprocessing would import the caller's main module in each (a script without a guard then starts itself again)
or copy the locks of its threads (fork). A worker reads pickled calls from its standard input, where the end of the
caller, however it came, is the end of the file.
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

Submit = Callable[..., "Future[Any]"]  # (function, *arguments) → its result to come


@contextlib.contextmanager
def workers(count: int) -> Iterator[Submit]:
    """`count` processes; functions and arguments must be picklable. An exception of a call is that of its future."""
    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for _ in range(count):
            idle.put(stack.enter_context(Worker()))

        def call(function: Callable[..., Any], *arguments: Any) -> Any:
            worker = idle.get()
            try:
                return worker.call(function, *arguments)
            finally:
                idle.put(worker)

        threads = ThreadPoolExecutor(count)
        stack.callback(threads.shutdown, cancel_futures=True)
        yield lambda function, *arguments: threads.submit(call, function, *arguments)


class Worker:
    """One process; a context manager that ends it."""

    def __enter__(self) -> "Worker":
        # -P: the caller's working directory is no place to import from
        command = [sys.executable, "-P", "-m", "rnnlm.sequences.worker_pool"]
        environment = os.environ | {"PYTHONPATH": python_path()}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=False
        )
        return self

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            pickle.dump((function, arguments), self.process.stdin)
            self.process.stdin.flush()
            done, result = pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise DatasetError(
                f"a process that tokenizes ended with code {self.process.wait()}, perhaps for want of memory;\n"
                "run again (what is done is kept), with a smaller sequences.processes if it comes back"
            ) from error
        if not done:
            raise result
        return result

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def serve() -> None:
    """Answer calls until standard input ends. Standard output is for answers; whatever prints goes to the error's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when to stop
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
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
    serve()
