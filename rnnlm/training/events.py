"""What training says of itself while it runs, and who may listen."""

from dataclasses import dataclass
from typing import Protocol

from rnnlm.records import Sample


@dataclass(frozen=True)
class Measurement:
    step: int  # optimiser steps done
    metrics: dict[str, float]


@dataclass(frozen=True)
class TrainingSamples:
    step: int
    samples: tuple[Sample, ...]


Event = Measurement | TrainingSamples


class Tracker(Protocol):
    """A listener. It must not raise: training does not stop because nobody listens."""

    mlflow_run_id: str | None

    def __call__(self, event: Event) -> None: ...
