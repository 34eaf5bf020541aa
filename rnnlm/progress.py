"""Progress of long work: a bar on a terminal, a log line every few seconds elsewhere."""

import logging
import sys
import time
from types import TracebackType

from tqdm import tqdm

logger = logging.getLogger(__name__)
EVERY_SECONDS = 10.0


class Progress:
    """Context manager; call `update` as work is done, and `facts` to show more beside it.

    what: the work's name, which begins each line; unit: what `total` counts; total None: unknown.
    """

    def __init__(
        self, what: str, total: int | None, unit: str, every_seconds: float = EVERY_SECONDS, done: int = 0
    ) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.every_seconds = every_seconds
        self.done = done
        self.text = ""
        self.next_line = time.monotonic() + every_seconds
        self.bar = tqdm(
            total=total, initial=done, desc=what, unit=unit, leave=unit == "step", disable=not sys.stderr.isatty()
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()

    def update(self, count: int = 1) -> None:
        self.done += count
        self.bar.update(count)
        if self.bar.disable and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + self.every_seconds
            text = f", {self.text}" if self.text else ""
            end = "" if self.total is None else f" of {self.total:,}"
            logger.info("%s: %s %s%s%s", self.what, self.unit, f"{self.done:,}", end, text)

    def facts(self, text: str) -> None:
        self.text = text
        if not self.bar.disable:
            self.bar.set_postfix_str(text)
