"""Events of a training run, and the interface of trackers that forward them."""

from dataclasses import dataclass
from typing import Literal, Protocol

from rnnlm.storage.records import Sample

STARTED = "started.json"  # in a run's folder: its ids, before it has a result
TRACKING = "tracking.json"  # in a run's folder: how much of it was sent; may change after the run is complete


@dataclass(frozen=True)
class Measurement:
    step: int  # optimizer steps done
    metrics: dict[str, float]
    kind: Literal["training", "validation"] = "training"
    attempt: int = 0  # number of rollbacks before it


@dataclass(frozen=True)
class TrainingSamples:
    step: int
    samples: tuple[Sample, ...]


Event = Measurement | TrainingSamples


class Tracker(Protocol):
    """Sends the history and samples in the run's folder. Must not raise: training continues without it."""

    mlflow_run_id: str | None

    def __call__(self) -> None:
        """Called after each event: send new ones if it is time to."""
        ...

    def flush(self) -> None:
        """Send all of them now."""
        ...
