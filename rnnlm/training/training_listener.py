"""Listeners to training events. They write the history and samples, and call a tracker that sends both to MLflow."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from rnnlm.storage.stage_folders import RunFolder
from rnnlm.training.history import History, Measurement, Tracker

if TYPE_CHECKING:
    from pathlib import Path

    from rnnlm.models.language_model import LanguageModel

# A function that takes the model and the step, and writes samples to the run's folder.
Sampler = Callable[["LanguageModel", int], None]


class TrainingListener:
    """A listener that ignores all training events. It is also a context manager around training."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Handle the end of training, with or without an error."""

    def measured(self, measurement: Measurement) -> None:
        """Handle a new measurement of training or validation."""

    def validating(self, model: "LanguageModel", step: int) -> None:
        """Handle the beginning of a validation. `model` has the weights that would be saved at this step."""


class RunListener(TrainingListener):
    """A listener that writes a run's history and samples to its folder, and calls the tracker after each entry."""

    def __init__(self, folder: "Path", tracker: Tracker | None = None, sampler: Sampler | None = None) -> None:
        self.folder, self.tracker, self.sampler = folder, tracker, sampler
        self.history: History | None = None

    def __enter__(self) -> Self:
        self.history = History(RunFolder(self.folder).history)
        return self

    def __exit__(self, *error: object) -> None:
        assert self.history is not None
        self.history.close()

    def measured(self, measurement: Measurement) -> None:
        assert self.history is not None
        self.history.write(measurement)
        self.track()

    def validating(self, model: "LanguageModel", step: int) -> None:
        if self.sampler is not None:
            self.sampler(model, step)
            self.track()

    def track(self) -> None:
        if self.tracker is not None:
            self.tracker()
