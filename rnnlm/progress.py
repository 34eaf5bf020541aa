"""Progress of long work: a bar on a terminal, else a log line every few seconds."""

import logging
import sys
import time
from types import TracebackType

from tqdm import tqdm

logger = logging.getLogger(__name__)
LOG_EVERY_SECONDS = 10.0
BYTES = "B"  # the unit that is shown in megabytes


class Progress:
    """Context manager: call `update` as work is done, and `facts` with what to show beside it.

    what: name of the work, at the beginning of each line. unit: of `total` and `done`, a word or BYTES.
    total: None if unknown. every_seconds: between log lines; None: LOG_EVERY_SECONDS.
    """

    def __init__(
        self, what: str, total: int | None, unit: str, every_seconds: float | None = None, done: int = 0
    ) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.every_seconds = LOG_EVERY_SECONDS if every_seconds is None else every_seconds
        self.done = done
        self.text = ""
        self.next_line = time.monotonic() + self.every_seconds
        self.bar = tqdm(
            total=total,
            initial=done,
            desc=what,
            unit=unit,
            unit_scale=unit == BYTES,
            leave=unit == "step",
            disable=not sys.stderr.isatty(),
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
            logger.info("%s: %s%s", self.what, self.amount(), f", {self.text}" if self.text else "")

    def amount(self) -> str:
        """`1.0 of 2.5 MB`, `step 10 of 2,000`; without a total `1.0 MB`, `step 10`."""
        if self.unit == BYTES:
            of = "" if self.total is None else f" of {self.total / 1e6:,.1f}"
            return f"{self.done / 1e6:,.1f}{of} MB"
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{self.unit} {self.done:,}{of}"

    def facts(self, text: str) -> None:
        """Text shown after the amount from now on."""
        self.text = text
        if not self.bar.disable:
            self.bar.set_postfix_str(text)
