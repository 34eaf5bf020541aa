"""history.jsonl of a run: what training measured, one JSON line each, and the spool that trackers are fed from.

A line: {"step", "kind", "attempt", "time_milliseconds", "metrics"}.
"""

import errno
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from rnnlm.generation.sample_page import samples_page
from rnnlm.home import atomic_file
from rnnlm.training.events import Measurement, TrainingSamples

logger = logging.getLogger(__name__)
HISTORY, SAMPLES = "history.jsonl", "samples"  # in a run's folder
Identity = tuple[int, str, int]  # step, kind, attempt


class History:
    """Appends measurements. Each is written once, however often training is killed and comes by its step again."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path
        self.end = whole_lines(path)  # bytes
        self.written = {identity(line) for line, _ in read_lines(path)}
        self.unwritten: list[bytes] = []  # lines that a full disk did not take
        self.stream = path.open("r+b", buffering=0)
        self.stream.truncate(self.end)  # a kill may have torn the last line
        self.stream.seek(self.end)

    def __enter__(self) -> "History":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()

    def write(self, measurement: Measurement) -> None:
        line = {
            "step": measurement.step,
            "kind": measurement.kind,
            "attempt": measurement.attempt,
            "time_milliseconds": round(time.time() * 1000),
            "metrics": measurement.metrics,
        }
        if identity(line) in self.written:
            return
        self.written.add(identity(line))
        self.unwritten.append(json.dumps(line).encode() + b"\n")
        try:
            while self.unwritten:
                self.append(self.unwritten[0])
                del self.unwritten[0]
        except OSError as error:
            logger.warning("%s: not written (%s); it is tried again with the next line", self.path, error)

    def append(self, line: bytes) -> None:
        """The whole line or nothing of it."""
        try:
            if self.stream.write(line) != len(line):
                raise OSError(errno.ENOSPC, "no space left for a whole line")
            self.end += len(line)
        except OSError:
            self.stream.truncate(self.end)
            self.stream.seek(self.end)
            raise


def write_samples(folder: Path, event: TrainingSamples) -> None:
    """A page for people, samples/step-….md in the run's folder; where it cannot be written, a warning."""
    page = folder / SAMPLES / f"step-{event.step:08d}.md"
    try:
        page.parent.mkdir(exist_ok=True)
        with atomic_file(page) as partial:
            partial.write_text(samples_page(event.samples), encoding="utf-8")
    except OSError as error:
        logger.warning("%s: not written (%s)", page, error)


def identity(line: dict[str, Any]) -> Identity:
    return line["step"], line.get("kind", "training"), line.get("attempt", 0)


def read_lines(path: Path, start: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Whole lines from byte `start` on, each with the byte after it. A line that is no JSON is warned of and left."""
    if not path.exists():
        return
    with path.open("rb") as stream:
        stream.seek(start)
        for line in stream:
            if not line.endswith(b"\n"):
                return  # torn, or still being written
            start += len(line)
            try:
                yield json.loads(line), start
            except ValueError:
                logger.warning("%s: the line that ends at byte %d is no JSON; left out", path, start)


def whole_lines(path: Path) -> int:
    """Bytes up to the end of the last whole line."""
    return path.read_bytes().rfind(b"\n") + 1
