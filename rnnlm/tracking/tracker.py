"""A tracker that sends the measurements and samples in a run's folder to its MLflow run, in order and without loss.

The run's folder serves as a queue, so nothing is lost while MLflow is unavailable. After each successful call,
tracking.json records the position up to which the data was sent. If the process is killed between a call and this
record, the same metrics are sent again with the same time stamp, and MLflow stores only one of two equal metrics.
"""

import logging
import math
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.errors import TrackingError
from rnnlm.storage.home import Home, write_json
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.history import read_measurements

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

logger = logging.getLogger(__name__)
SAMPLED = {name: f"sampled_{name}" for name in ("validation_perplexity", "validation_nll_nats_per_token")}
# The number of intervals for which the tracker waits after a failure, because each attempt may take 30 s.
RETRY_INTERVALS = 10
# A function that takes a client and a key, and returns the id of the RUNNING MLflow run with this key.
FindRun = Callable[["MlflowClient", str], str]


@dataclass
class RunTracker:
    """A tracker that sends new measurements and samples in `folder` to MLflow, at most once in `every_seconds`.

    Failures of MLflow are not raised.
    """

    home: Home
    folder: Path
    every_seconds: float
    find_run: FindRun

    def __post_init__(self) -> None:
        self.files = RunFolder(self.folder)
        spool = self.files.tracking
        # The key is stored before the MLflow run is created with it. If this process is killed before it stores the
        # run's id, the next process finds the run by the key.
        self.key: str = spool.get("key") or uuid.uuid4().hex
        self.mlflow_run_id: str | None = spool.get("mlflow_run_id")
        # The number of bytes sent, from the beginning of history.jsonl.
        self.history_bytes: int = spool.get("history_bytes", 0)
        self.samples: list[str] = spool.get("samples", [])  # The names of the pages of samples that were sent.
        self.begun = False  # True if the MLflow run exists and is RUNNING.
        self.warned = False
        self.next_flush = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self.next_flush:
            self.flush()

    def flush(self) -> None:
        """Send all new measurements and samples now. After a failure they are sent again at the next call."""
        sent = self.attempt(self.send)
        self.next_flush = time.monotonic() + self.every_seconds * (1 if sent else RETRY_INTERVALS)

    def send(self, client: "MlflowClient") -> None:
        run_id = self.begin(client)
        if new := self.unsent():
            client.log_batch(run_id, metrics=[metric for line, _ in new for metric in mlflow_metrics(line)])
            self.history_bytes = new[-1][1]
            self.save_progress()
        for page in sorted(self.files.samples.glob("step-*.md")):
            if page.name not in self.samples:
                client.log_artifact(run_id, str(page), self.files.samples.name)
                self.samples.append(page.name)
                self.save_progress()

    def unsent(self) -> list[tuple[dict[str, Any], int]]:
        """Return the complete lines of the history that were not sent, each with the offset of its end."""
        return list(read_measurements(self.files.history, self.history_bytes))

    def begin(self, client: "MlflowClient") -> str:
        """Return the id of the MLflow run, which is created if it does not exist."""
        if not self.begun or self.mlflow_run_id is None:
            self.save_progress()
            found = self.find_run(client, self.key)
            if found != self.mlflow_run_id:  # All data must be sent again, because the run or the store is new.
                self.mlflow_run_id, self.history_bytes, self.samples = found, 0, []
                self.save_progress()
            self.begun = True
        return self.mlflow_run_id

    def save_progress(self) -> None:
        names = ("key", "mlflow_run_id", "history_bytes", "samples")
        write_json(self.files.tracking_path, {name: getattr(self, name) for name in names})

    def close(self, status: str) -> None:
        """Send the remaining measurements and samples, and end the run as FINISHED, FAILED or KILLED."""
        self.flush()
        self.attempt(lambda client: client.set_terminated(self.begin(client), status=status))
        if waiting := sum(len(mlflow_metrics(line)) for line, _ in self.unsent()):
            logger.warning("%d metrics could not be logged to MLflow; they are in %s", waiting, self.files.history)

    def attempt(self, action: Callable[["MlflowClient"], None]) -> bool:
        """Run the action, and return False if MLflow failed. Only the first failure is logged."""
        try:
            with reaching_mlflow(self.home) as client:
                action(client)
            return True
        except TrackingError as error:
            if not self.warned:
                logger.warning("training continues without MLflow for now: %s", error)
            self.warned = True
            return False


def mlflow_metrics(line: dict[str, Any]) -> list["Metric"]:
    """Return an MLflow metric for each finite value in a line of the history.

    Other values are left out, because MLflow would store infinity as 1.8e308. The names of validation metrics during
    training contain "sample", because they are measured on training.validation.tokens tokens. The evaluation after
    training scores whole splits.
    """
    from mlflow.entities import Metric

    return [
        Metric(SAMPLED.get(name, name), float(value), line.get("time_milliseconds", 0), line["step"])
        for name, value in line["metrics"].items()
        if value is not None and math.isfinite(value)
    ]
