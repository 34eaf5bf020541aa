"""Progress of long work: a bar on a terminal, else a log line every few seconds."""

import logging
import sys
import time
from dataclasses import dataclass

from tqdm import tqdm

logger = logging.getLogger(__name__)
LOG_EVERY_SECONDS = 10.0
BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}, {remaining} left"  # fits 80 columns
BYTES = "B"  # the unit that is shown in megabytes


def clear_bars() -> None:
    """Erase the bars on the terminal, so that a line can be printed there; their next update draws them again."""
    for bar in list(getattr(tqdm, "_instances", ())):
        bar.clear()


@dataclass
class Progress:
    """Context manager: call `update` as work is done, and `facts` with what to show beside it."""

    what: str  # name of the work, at the beginning of each line
    total: int | None  # None if unknown
    unit: str  # of `total` and `done`, a word or BYTES
    every_seconds: float = LOG_EVERY_SECONDS  # between log lines
    done: int = 0

    def __post_init__(self) -> None:
        self.text = ""
        self.next_line = time.monotonic() + self.every_seconds
        self.bar = tqdm(
            total=self.total,
            initial=self.done,
            desc=self.what,
            unit=self.unit,
            unit_scale=self.unit == BYTES,
            leave=self.unit == "step",
            dynamic_ncols=True,
            bar_format=None if self.total is None else BAR,
            disable=not sys.stderr.isatty(),
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
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
