"""Listeners to training events. They write the history and samples, and call a tracker, which sends both to MLflow."""

from typing import TYPE_CHECKING, Self

from rnnlm.config import PipelineConfig
from rnnlm.storage.home import read_json
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.history import HISTORY, History, Measurement, Tracker
from rnnlm.training.job import Job
from rnnlm.training.samples import write_samples

if TYPE_CHECKING:
    from pathlib import Path

    from rnnlm.config import GenerationConfig
    from rnnlm.models.language_model import LanguageModel


class TrainingListener:
    """A listener that ignores all training events. As a context manager it is notified of the start and the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Handle the end of training, with an error or without."""

    def measured(self, measurement: Measurement) -> None:
        """Handle a new measurement of training or validation."""

    def validating(self, model: "LanguageModel", step: int) -> None:
        """Handle the beginning of a validation. `model` has the weights that would be saved now."""


class RunListener(TrainingListener):
    """A listener that writes a run's history and samples to its folder, and calls the tracker after each entry."""

    def __init__(self, folder: "Path", tracker: Tracker | None = None) -> None:
        self.folder, self.tracker = folder, tracker
        self.history: History | None = None
        self.samples: tuple[DatasetRecord, GenerationConfig] | None = None

    def with_samples(self, dataset: DatasetRecord, config: "GenerationConfig") -> Self:
        """Let the listener also write samples at each validation, with the configured prompts. Return the listener."""
        self.samples = dataset, config
        return self

    def __enter__(self) -> Self:
        self.history = History(self.folder / HISTORY)
        return self

    def __exit__(self, *error: object) -> None:
        assert self.history is not None
        self.history.close()

    def measured(self, measurement: Measurement) -> None:
        assert self.history is not None
        self.history.write(measurement)
        self.track()

    def validating(self, model: "LanguageModel", step: int) -> None:
        if self.samples is not None:
            write_samples(*self.samples, self.folder, model, step)
            self.track()

    def track(self) -> None:
        if self.tracker is not None:
            self.tracker()


def listener_of_run(job: Job, tracker: Tracker | None = None) -> RunListener:
    """Return a listener that also writes samples, with the prompts configured in the run's folder."""
    config = PipelineConfig.model_validate(read_json(job.folder / "config.json"))
    return RunListener(job.folder, tracker).with_samples(job.dataset, config.generation)
