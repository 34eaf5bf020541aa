"""Further targets of each predicted token, beside the one of the text: drawn beforehand, and stored in one file.

Learning from a distribution over words means a cross-entropy with all of them, each weighted by its probability. With
targets of equal weight that are drawn from it, the gradient is the same on average.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rnnlm.sequences.batches import RowSource, chunks
from rnnlm.sequences.segmentation import TokenRows, ends


@dataclass(frozen=True)
class TargetRows:
    """A RowSource with rows as long as those of the text, in which every predicted token is one of its targets."""

    path: Path  # of the drawn targets, in the order of the stored text
    draw: int
    firsts: np.ndarray  # (rows + 1,) predicted tokens before each row

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @property
    def predicted_count(self) -> int:
        return int(self.firsts[-1])

    def read(self, first: int, last: int) -> TokenRows:
        targets = np.load(self.path, mmap_mode="r")[self.draw, self.firsts[first] : self.firsts[last]]
        ends_of_rows = self.firsts[first : last + 1] - self.firsts[first]
        # A row begins with a token that is read but not predicted, here 0.
        return TokenRows(
            np.insert(targets, ends_of_rows[:-1], 0).astype(np.int32), ends_of_rows + np.arange(len(ends_of_rows))
        )

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def target_rows(text: RowSource, path: Path) -> list[TargetRows]:
    """Return one source for each target that the file holds for every predicted token of the text.

    path: .npy, (targets, predicted tokens), in the order of the stored text.
    """
    firsts = ends(np.concatenate([np.zeros(0, np.int64), *(rows.predicted for rows in chunks(text))]))
    return [TargetRows(path, draw, firsts) for draw in range(len(np.load(path, mmap_mode="r")))]
