"""What listens to training: metrics to an MLflow run in batches, and never an exception back."""

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rnnlm.errors import TrackingError
from rnnlm.home import Home
from rnnlm.records import Sample
from rnnlm.tracking.store import reaching_mlflow
from rnnlm.training.events import Measurement, TrainingSamples

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

logger = logging.getLogger(__name__)
METRICS_PER_CALL = 1000  # MLflow refuses longer batches
PATIENCE = 10  # a store that failed is asked again after so many intervals: each asking may block for 30 s


class RunTracker:
    """Buffers measurements and sends them every `every_seconds`; without a run it listens to nothing."""

    def __init__(self, home: Home, mlflow_run_id: str | None, every_seconds: float) -> None:
        self.home = home
        self.mlflow_run_id = mlflow_run_id
        self.every_seconds = every_seconds
        self.next_flush = time.monotonic() + every_seconds
        self.buffer: list[Metric] = []
        self.warned = False

    def __call__(self, event: Measurement | TrainingSamples) -> None:
        if self.mlflow_run_id is None:
            return
        if isinstance(event, TrainingSamples):
            run_id, page = self.mlflow_run_id, samples_page(event.samples)
            self.attempt(lambda client: client.log_text(run_id, page, f"samples/step-{event.step:08d}.md"))
            return
        self.buffer += metrics_of(event)
        if time.monotonic() >= self.next_flush:
            self.flush(self.mlflow_run_id)

    def flush(self, run_id: str) -> None:
        """Send what is buffered. What cannot be sent stays buffered for the next time."""

        def send(client: "MlflowClient") -> None:
            while self.buffer:
                client.log_batch(run_id, metrics=self.buffer[:METRICS_PER_CALL])
                del self.buffer[:METRICS_PER_CALL]

        sent = self.attempt(send)
        self.next_flush = time.monotonic() + self.every_seconds * (1 if sent else PATIENCE)

    def close(self, status: str) -> None:
        """Send the rest and end the run as FINISHED, FAILED or KILLED."""
        if self.mlflow_run_id is None:
            return
        run_id = self.mlflow_run_id
        self.flush(run_id)
        self.attempt(lambda client: client.set_terminated(run_id, status=status))
        if self.buffer:
            logger.warning("%d metrics did not reach MLflow; history.jsonl of the run has them", len(self.buffer))

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


def metrics_of(measurement: Measurement) -> list["Metric"]:
    """One MLflow metric a finite value: MLflow would store infinity as 1.8e308."""
    from mlflow.entities import Metric

    now = round(time.time() * 1000)  # milliseconds
    return [
        Metric(name, float(value), now, measurement.step)
        for name, value in measurement.metrics.items()
        if math.isfinite(value)
    ]


def samples_page(samples: tuple[Sample, ...]) -> str:
    """Markdown: each prompt with its continuation, in a fence so that `<unk>` stays visible."""
    blocks = [f"prompt: `{sample.prompt}`\n\n```\n{sample.text}\n```" for sample in samples]
    return "\n\n".join(blocks) + "\n"
