"""Files in the folder of a run that trains: history.jsonl has one JSON line per measurement, for trackers to send.

Fields of a line: step, kind, attempt, time_milliseconds, metrics.
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
# In a run's folder:
STARTED = "started.json"  # a run's ids, before it has a result
HISTORY, SAMPLES = "history.jsonl", "samples"
TRACKING = "tracking.json"  # how much of both was sent; may change after the run is complete


@dataclass(frozen=True)
class Measurement:
    step: int  # optimizer steps done
    metrics: dict[str, float]
    kind: Literal["training", "validation"] = "training"
    attempt: int = 0  # number of rollbacks before it


class Tracker(Protocol):
    """Sends the history and samples in the run's folder. Must not raise: training continues without it."""

    mlflow_run_id: str | None

    def __call__(self) -> None:
        """Send new measurements and samples if it is time to. It is called after each of them."""
        ...

    def flush(self) -> None:
        """Send all of them now."""
        ...


class History:
    """Append measurements. Each is written once, even if training is killed and repeats its step."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path
        end = path.read_bytes().rfind(b"\n") + 1  # bytes; a kill may have torn the last line
        self.written = {identity(line) for line, _ in read_measurements(path)}
        self.unwritten = b""  # lines, or the end of one, that did not fit on a full disk
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
    """Return step, kind and attempt, which at most one line has."""
    return line["step"], line.get("kind", "training"), line.get("attempt", 0)


def read_measurements(path: Path, start: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield whole lines from byte `start` on, each with the offset after it. Invalid JSON is skipped with a warning."""
    if not path.exists():
        return
    with path.open("rb") as stream:
        stream.seek(start)
        for line in stream:
            if not line.endswith(b"\n"):
                return  # torn, or being written
            start += len(line)
            try:
                yield json.loads(line), start
            except ValueError:
                logger.warning("%s: skipping the line that ends at byte %d: invalid JSON", path, start)


def read_series(history: Path, name: str) -> tuple[list[float], list[float]]:
    """Return the trained tokens, or steps if they are not recorded, and every finite value of one metric."""
    xs: list[float] = []
    ys: list[float] = []
    trained = 0.0
    attempt = 0
    for measured, _ in read_measurements(history):
        metrics = measured["metrics"]
        if measured.get("attempt", 0) > attempt:  # training rolled back: leave out the diverged part
            attempt, valid = measured["attempt"], sum(x < metrics["trained_tokens"] for x in xs)
            xs, ys = xs[:valid], ys[:valid]
        trained = metrics.get("trained_tokens", max(trained, measured["step"]))
        if name in metrics and metrics[name] is not None and math.isfinite(metrics[name]):
            xs.append(float(trained))
            ys.append(float(metrics[name]))
    return xs, ys
