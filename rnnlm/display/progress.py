"""The progress of long tasks, shown by a bar on a terminal or in a notebook, or by a log line every few seconds."""

import contextlib
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from tqdm import tqdm

logger = logging.getLogger(__name__)
LOG_EVERY_SECONDS = 10.0
# The format of a progress bar, which fits into 80 columns.
BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}, {remaining} left"
SHARE = "share_done"  # The log record attribute that contains the fraction of the work that is done.
BYTES = "B"  # The unit of work that is shown in megabytes.


@dataclass(frozen=True)
class ProgressReport:
    line: str  # A text such as `training: step 120 of 3,000, loss 4.310, 2 min left`.
    share: float  # The fraction of the work that is done, from 0 to 1. It is 0 if the total is unknown.


Listener = Callable[[ProgressReport], None]
LISTENERS: list[Listener] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` for every progress report in the context. It must return at once and not raise errors."""
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)


def tell_listeners(report: ProgressReport) -> None:
    for listener in LISTENERS:
        listener(report)


def time_left(seconds: float) -> str:
    """Return a text such as `40 s left`, `12 min left` or `3 h 20 min left`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{minutes} min left" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min left"


def clear_bars() -> None:
    """Erase the progress bars on the terminal, so that a line can be printed.

    Each bar is drawn again when it is updated.
    """
    for bar in list(getattr(tqdm, "_instances", ())):
        bar.clear()


def in_notebook() -> bool:
    """Return True if this process is the kernel of a Jupyter notebook."""
    return "ipykernel" in sys.modules


def notebook_bar() -> type[tqdm]:
    """Return the class of bars for notebooks: a widget if ipywidgets is installed, otherwise a line of text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Without this line, tqdm would recommend installing ipywidgets.
        from tqdm.autonotebook import tqdm as bar
    return cast(type[tqdm], bar)


@dataclass
class Progress:
    """A context manager that shows the progress of a task.

    Call `update` when a part of the work is done, and `facts` with text to show next to the amount of work.
    """

    what: str  # The name of the work, with which each line begins.
    total: int | None  # The amount of work, or None if it is unknown.
    unit: str  # The unit of `total` and `done`, which is a word or BYTES.
    every_seconds: float = LOG_EVERY_SECONDS  # The number of seconds between two log lines.
    done: int = 0

    def __post_init__(self) -> None:
        self.text, self.more = "", ""
        self.begun, self.done_before = time.monotonic(), self.done
        self.next_line = self.begun + self.every_seconds
        bar, is_shown = (notebook_bar(), True) if in_notebook() else (tqdm, sys.stderr.isatty())
        self.bar = bar(
            total=self.total,
            initial=self.done,
            desc=self.what,
            unit=self.unit,
            unit_scale=self.unit == BYTES,
            leave=self.unit == "step",
            dynamic_ncols=True,
            bar_format=None if self.total is None else BAR,
            disable=not is_shown,
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def update(self, count: int = 1) -> None:
        self.done += count
        self.bar.update(count)
        if time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + self.every_seconds
            report = self.report()
            tell_listeners(report)
            if self.bar.disable:
                logger.info("%s", report.line, extra={SHARE: report.share})

    def report(self) -> ProgressReport:
        facts = [self.amount(), self.text, self.more, self.remaining()]
        share = self.done / self.total if self.total else 0.0
        return ProgressReport(f"{self.what}: {', '.join(filter(None, facts))}", share)

    def remaining(self) -> str:
        """Return an estimate of the remaining time, or "" if the total or the speed is unknown."""
        new = self.done - self.done_before
        if self.total is None or new <= 0:
            return ""
        return time_left((time.monotonic() - self.begun) / new * (self.total - self.done))

    def amount(self) -> str:
        """Return a text such as `1.0 of 2.5 MB` or `step 10 of 2,000`; without a total `1.0 MB` or `step 10`."""
        if self.unit == BYTES:
            of = "" if self.total is None else f" of {self.total / 1e6:,.1f}"
            return f"{self.done / 1e6:,.1f}{of} MB"
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{self.unit} {self.done:,}{of}"

    def facts(self, text: str, more: str = "") -> None:
        """Set the text that follows the amount of work.

        `more` is shown only in log lines, because a bar has no room for it.
        """
        self.text, self.more = text, more
        if not self.bar.disable:
            self.bar.set_postfix_str(text)
