"""How far training is: a bar on a terminal, a log line every few seconds elsewhere."""

import logging
import sys
import time
from types import TracebackType

from tqdm import tqdm

logger = logging.getLogger(__name__)


class Progress:
    """Context manager; `update` after each step, `facts` for what is worth showing beside it."""

    def __init__(self, total_steps: int, every_seconds: float, done: int = 0) -> None:
        self.total_steps = total_steps
        self.every_seconds = every_seconds
        self.steps = done
        self.text = ""
        self.next_line = time.monotonic() + every_seconds
        self.bar = tqdm(total=total_steps, initial=done, desc="training", unit="step", disable=not sys.stderr.isatty())

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()

    def update(self) -> None:
        self.steps += 1
        self.bar.update()
        if self.bar.disable and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + self.every_seconds
            logger.info("training: step %d of %d, %s", self.steps, self.total_steps, self.text)

    def facts(self, text: str) -> None:
        self.text = text
        if not self.bar.disable:
            self.bar.set_postfix_str(text)
