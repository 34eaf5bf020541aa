"""Listeners to the events of training: they write history and samples, and let a tracker send them."""

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
    """Told of a training's events, between entering and leaving it as a context. This one does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Take note that training has ended, perhaps with an error."""

    def measured(self, measurement: Measurement) -> None:
        """Take note of a new measurement, of training or of a validation."""

    def validating(self, model: "LanguageModel", step: int) -> None:
        """Take note that the model is about to be validated, with the weights that would be saved."""


class RunListener(TrainingListener):
    """Writes the history and samples of a run to its folder, and lets the tracker send them."""

    def __init__(self, folder: "Path", tracker: Tracker | None = None) -> None:
        self.folder, self.tracker = folder, tracker
        self.history: History | None = None
        self.samples: tuple[DatasetRecord, GenerationConfig] | None = None

    def with_samples(self, dataset: DatasetRecord, config: "GenerationConfig") -> Self:
        """Write samples at each validation, too, with the configured prompts."""
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
    """Make a listener that also writes samples, by the configuration in the run's folder."""
    config = PipelineConfig.model_validate(read_json(job.folder / "config.json"))
    return RunListener(job.folder, tracker).with_samples(job.dataset, config.generation)
