"""What training says of itself while it runs, and who may listen."""

from dataclasses import dataclass
from typing import Literal, Protocol

from rnnlm.records import Sample

TRACKING = "tracking.json"  # in a run's folder: how far it is sent; changes after the run is complete


@dataclass(frozen=True)
class Measurement:
    step: int  # optimiser steps done
    metrics: dict[str, float]
    kind: Literal["training", "validation"] = "training"
    attempt: int = 0  # counts how often training went back after it had diverged


@dataclass(frozen=True)
class TrainingSamples:
    step: int
    samples: tuple[Sample, ...]


Event = Measurement | TrainingSamples


class Tracker(Protocol):
    """Sends on what training leaves in the run's folder. It must not raise: training goes on without it."""

    mlflow_run_id: str | None

    def __call__(self) -> None:
        """Something new may lie there: send it when it is time to."""
        ...

    def flush(self) -> None:
        """Send it now."""
        ...
