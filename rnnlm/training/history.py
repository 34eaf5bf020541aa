"""The history of a training run, which is history.jsonl in its folder. Trackers send its measurements.

Each line of history.jsonl is one measurement as JSON, with the fields step, kind, attempt, time_milliseconds and
metrics.
"""

import json
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measurement:
    step: int  # The number of optimizer steps taken before the measurement.
    metrics: dict[str, float]
    kind: Literal["training", "validation"] = "training"
    attempt: int = 0  # The number of rollbacks of training before the measurement.


class Tracker(Protocol):
    """A sender of the history and samples in a run's folder.

    Its methods must not raise errors, so that training continues if sending fails.
    """

    mlflow_run_id: str | None

    def __call__(self) -> None:
        """Send new measurements and samples if enough time has passed.

        Training calls this method after each new measurement or sample.
        """
        ...

    def flush(self) -> None:
        """Send all new measurements and samples now."""
        ...


class History:
    """A writer that appends measurements to history.jsonl.

    Each measurement is written once, even if training is killed and later repeats the step.
    """

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path
        # The length of the file up to the end of its last whole line. A killed process may have left an incomplete
        # line.
        end = path.read_bytes().rfind(b"\n") + 1
        self.written = {identity(line) for line, _ in read_measurements(path)}
        self.unwritten = b""  # Lines, or the rest of a line, that could not be written because the disk was full.
        self.stream = path.open("r+b", buffering=0)
        self.stream.truncate(end)
        self.stream.seek(end)

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
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
        self.unwritten += json.dumps(line).encode() + b"\n"
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[self.stream.write(self.unwritten) :]
        except OSError as error:
            logger.warning("%s: cannot be written (%s); trying again with the next line", self.path, error)


def identity(line: dict[str, Any]) -> tuple[int, str, int]:
    """Return the step, kind and attempt of a measurement, which together identify it."""
    return line["step"], line.get("kind", "training"), line.get("attempt", 0)


def read_measurements(path: Path, start: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the measurements in the whole lines after byte `start`, each with the offset of the end of its line.

    Lines of a damaged file that are not valid JSON or not measurements are skipped with a warning.
    """
    if not path.exists():
        return
    with path.open("rb") as stream:
        stream.seek(start)
        for line in stream:
            if not line.endswith(b"\n"):
                return  # The line is incomplete, because a process was killed or is still writing it.
            start += len(line)
            try:
                measured = json.loads(line)
            except (ValueError, RecursionError):
                measured = None
            if is_measurement(measured):
                yield measured, start
            else:
                logger.warning("%s: skipping the line that ends at byte %d: it is damaged", path, start)


def is_measurement(found: Any) -> bool:
    """Return True if the value, which was read from a file, has the form of a measurement."""
    if not (isinstance(found, dict) and isinstance(metrics := found.get("metrics"), dict)):
        return False
    numbers = [
        found.get("step"),
        found.get("attempt", 0),
        found.get("time_milliseconds", 0),
        *(one for one in metrics.values() if one is not None),
    ]
    return all(isinstance(number, int | float) for number in numbers)


def read_series(history: Path, name: str) -> tuple[list[float], list[float]]:
    """Return the x and y values of one metric's curve, without values that are not finite.

    The x values are the numbers of trained tokens, or of steps in histories that do not record tokens.
    """
    xs: list[float] = []
    ys: list[float] = []
    trained = 0.0
    attempt = 0
    for measured, _ in read_measurements(history):
        metrics = measured["metrics"]
        # After a rollback of training, the measurements of the diverged steps are left out.
        if measured.get("attempt", 0) > attempt:
            attempt, valid = measured["attempt"], sum(x < metrics["trained_tokens"] for x in xs)
            xs, ys = xs[:valid], ys[:valid]
        trained = metrics.get("trained_tokens", max(trained, measured["step"]))
        if name in metrics and metrics[name] is not None and math.isfinite(metrics[name]):
            xs.append(float(trained))
            ys.append(float(metrics[name]))
    return xs, ys
