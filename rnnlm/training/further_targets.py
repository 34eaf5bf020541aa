"""Additional training targets of each position, besides the next token of the text.

An extension may add targets, such as tokens drawn from the distribution of a teacher.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rnnlm.config.training_config import TrainingConfig
from rnnlm.extension_points import plugged
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord

# A file in a run's folder with an array of shape (targets, predicted tokens); see sequences/drawn_targets.py.
DRAWN_TARGETS = "drawn_targets.npy"


class FurtherTargets(Protocol):
    """Additional targets for every predicted token of the training split. Each token has the same number of targets."""

    @property
    def count(self) -> int:
        """The number of additional targets of each token."""

    @property
    def share(self) -> float:
        """The total weight of a token's additional targets in the loss.

        The text's own token has the remaining weight.
        """

    def write(self, home: Home, dataset: DatasetRecord, path: Path) -> None:
        """Draw the targets of a dataset and write them to the file `path`."""


AddTargets = Callable[[TrainingConfig], FurtherTargets | None]


def further_targets(training: TrainingConfig) -> FurtherTargets | None:
    """Return the additional targets of a training run, or None if the text's own tokens are the only targets."""
    adders: list[AddTargets] = plugged("targets")
    return next((found for add in adders if (found := add(training)) is not None), None)


def drawn_targets(home: Home, training: TrainingConfig, dataset: DatasetRecord, folder: Path) -> Path | None:
    """Return the file of additional targets in a run's folder, or None if there are none.

    The targets are drawn unless an interrupted run has already written the file.
    """
    further, path = further_targets(training), folder / DRAWN_TARGETS
    if further is None:
        return None
    if not path.exists():
        further.write(home, dataset, path)
    return path
