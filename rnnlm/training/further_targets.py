"""Targets that a network learns beside the text's own: an extension may add some, such as a teacher's."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rnnlm.config.training_config import TrainingConfig
from rnnlm.extension_points import plugged
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord

DRAWN_TARGETS = "drawn_targets.npy"  # in a run's folder: (count, predicted tokens); see sequences/drawn_targets.py


class FurtherTargets(Protocol):
    """Targets for every predicted token of the training split, as many for each."""

    @property
    def count(self) -> int:
        """Number for each token."""

    @property
    def share(self) -> float:
        """Weight of all of them together in the loss; the text has the rest."""

    def write(self, home: Home, dataset: DatasetRecord, path: Path) -> None:
        """Write DRAWN_TARGETS."""


AddTargets = Callable[[TrainingConfig], FurtherTargets | None]


def further_targets(training: TrainingConfig) -> FurtherTargets | None:
    """Return the further targets of a training run, or None if it learns from the text alone."""
    adders: list[AddTargets] = plugged("targets")
    return next((found for add in adders if (found := add(training)) is not None), None)


def drawn_targets(home: Home, training: TrainingConfig, dataset: DatasetRecord, folder: Path) -> Path | None:
    """Return the file of further targets in a run's folder, or None.

    It is drawn unless an interrupted run has left it.
    """
    further, path = further_targets(training), folder / DRAWN_TARGETS
    if further is None:
        return None
    if not path.exists():
        further.write(home, dataset, path)
    return path
