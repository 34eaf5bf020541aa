"""The time limit of a download. It holds even if a server sends its headers a byte at a time."""

import contextvars
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from rnnlm.errors import FetchError

T = TypeVar("T")


class Deadline:
    """The end of the time for all attempts to download a file."""

    def __init__(self, label: str, maximum_seconds: float) -> None:
        """Begin to count the time. maximum_seconds: inf for no limit."""
        self.label, self.maximum_seconds = label, maximum_seconds
        self.end = time.monotonic() + maximum_seconds
        self.abandoned = threading.Event()  # nobody waits for the download any more

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        """Raise FetchError if the time is over, or if nobody waits any more."""
        if time.monotonic() > self.end or self.abandoned.is_set():
            raise FetchError(
                f"{self.label}: took more than {self.maximum_seconds:,.0f} s (corpus.maximum_download_seconds);\n"
                "run again (if the server can resume, the received bytes are kept), or raise it"
            )

    def enforce(self, work: Callable[[], T]) -> T:
        """Return the result of `work`.

        At the end of the time, raise FetchError and leave the thread that does the work.

        Sockets only have limits between two reads. `work` calls check() before it writes: once left, it writes nothing.
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
        try:
            wait([future], None if math.isinf(self.end) else self.remaining_seconds)
        finally:  # also after Ctrl-C
            if not future.done():
                self.abandoned.set()
        if self.abandoned.is_set():
            self.check()
        return future.result()
