"""What training leaves in a run's folder goes on to its MLflow run: in order, each thing once, MLflow away or not.

The folder is the spool. How far it is sent stands in its tracking.json, noted after each call that MLflow took. A
kill between the two sends the same once more, with the same time stamp, and MLflow keeps one of two equal metrics.
"""

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.errors import TrackingError
from rnnlm.home import Home, read_json, write_json
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.events import TRACKING
from rnnlm.training.history import HISTORY, SAMPLES, read_measurements

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

logger = logging.getLogger(__name__)
METRICS_PER_CALL = 1000  # MLflow refuses longer batches
PATIENCE = 10  # a store that failed is asked again after so many intervals: each asking may block for 30 s
FindRun = Callable[["MlflowClient", str], str]  # (client, key) → id of the RUNNING MLflow run that bears the key


class RunTracker:
    """Sends what is new in `folder` every `every_seconds`. Nothing that MLflow does raises here."""

    def __init__(self, home: Home, folder: Path, every_seconds: float, find_run: FindRun) -> None:
        self.home = home
        self.folder = folder
        self.every_seconds = every_seconds
        self.find_run = find_run
        noted = read_json(folder / TRACKING) or {}
        # Noted before the MLflow run is made: if we are killed in between, the next process finds it by this.
        self.key: str = noted.get("key") or uuid.uuid4().hex
        self.mlflow_run_id: str | None = noted.get("mlflow_run_id")
        self.history_bytes: int = noted.get("history_bytes", 0)  # sent, from the start of history.jsonl
        self.samples: list[str] = noted.get("samples", [])  # names of the pages sent
        self.begun = False  # the MLflow run is there and RUNNING
        self.warned = False
        self.next_flush = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self.next_flush:
            self.flush()

    def flush(self) -> None:
        """Send what is new. What cannot be sent waits for the next time."""
        sent = self.attempt(self.send)
        self.next_flush = time.monotonic() + self.every_seconds * (1 if sent else PATIENCE)

    def send(self, client: "MlflowClient") -> None:
        run_id = self.begin(client)
        for metrics, end in batches(self.folder / HISTORY, self.history_bytes):
            client.log_batch(run_id, metrics=metrics)
            self.history_bytes = end
            self.note()
        for page in sorted((self.folder / SAMPLES).glob("step-*.md")):
            if page.name not in self.samples:
                client.log_artifact(run_id, str(page), SAMPLES)
                self.samples.append(page.name)
                self.note()

    def begin(self, client: "MlflowClient") -> str:
        """The MLflow run's id. It is made once MLflow is there, be it when training ends."""
        if not self.begun or self.mlflow_run_id is None:
            self.note()
            found = self.find_run(client, self.key)
            if found != self.mlflow_run_id:  # a new run, or another store: it lacks what was sent before
                self.mlflow_run_id, self.history_bytes, self.samples = found, 0, []
                self.note()
            self.begun = True
        return self.mlflow_run_id

    def note(self) -> None:
        noted: dict[str, Any] = {
            "key": self.key,
            "mlflow_run_id": self.mlflow_run_id,
            "history_bytes": self.history_bytes,
            "samples": self.samples,
        }
        write_json(self.folder / TRACKING, noted)

    def close(self, status: str) -> None:
        """Send the rest and end the run as FINISHED, FAILED or KILLED."""
        self.flush()
        self.attempt(lambda client: client.set_terminated(self.begin(client), status=status))
        waiting = sum(len(metrics) for metrics, _ in batches(self.folder / HISTORY, self.history_bytes))
        if waiting:
            logger.warning("%d metrics did not reach MLflow; %s has them", waiting, self.folder / HISTORY)

    def attempt(self, action: Callable[["MlflowClient"], None]) -> bool:
        """Do it and say whether it worked; the first failure is a warning, training goes on."""
        try:
            with reaching_mlflow(self.home) as client:
                action(client)
            return True
        except TrackingError as error:
            if not self.warned:
                logger.warning("training goes on without tracking for now: %s", error)
            self.warned = True
            return False


def batches(history: Path, start: int) -> Iterator[tuple[list["Metric"], int]]:
    """The metrics of whole lines from byte `start` on, as many as a call takes, with the byte after them."""
    batch: list[Metric] = []
    end = start
    for line, after in read_measurements(history, start):
        new = metrics_of(line)
        if batch and len(batch) + len(new) > METRICS_PER_CALL:
            yield batch, end
            batch = []
        batch, end = batch + new, after
    if batch:
        yield batch, end


def metrics_of(line: dict[str, Any]) -> list["Metric"]:
    """One MLflow metric a finite value of a line of history: MLflow would store infinity as 1.8e308."""
    from mlflow.entities import Metric

    return [
        Metric(name, float(value), line.get("time_milliseconds", 0), line["step"])
        for name, value in line["metrics"].items()
        if value is not None and math.isfinite(value)
    ]
