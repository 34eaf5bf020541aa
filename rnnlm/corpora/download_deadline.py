"""The time limit of a download, which holds even if a server sends its headers one byte at a time."""

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
    """The time at which all attempts to download a file end."""

    def __init__(self, label: str, maximum_seconds: float) -> None:
        """Start the clock. `maximum_seconds` is math.inf if there is no limit."""
        self.label, self.maximum_seconds = label, maximum_seconds
        self.end = time.monotonic() + maximum_seconds
        self.abandoned = threading.Event()  # The event is set when no caller waits for the download any longer.

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        """Raise FetchError if the deadline has passed or no caller waits for the download any longer."""
        if time.monotonic() > self.end or self.abandoned.is_set():
            raise FetchError(
                f"{self.label}: the download took more than {self.maximum_seconds:,.0f} s;\n"
                "run again (if the server can resume, the received bytes are kept), or raise\n"
                "corpus.maximum_download_seconds"
            )

    def enforce(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in a thread.

        At the deadline, raise FetchError and abandon the thread.

        The timeout of a socket applies to a single read, so it does not limit a whole download. `work` must call
        check() before it writes, so that an abandoned thread writes nothing.
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
        finally:  # The thread is also abandoned after Ctrl-C.
            if not future.done():
                self.abandoned.set()
        if self.abandoned.is_set():
            self.check()
        return future.result()
