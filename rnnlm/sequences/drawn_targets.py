"""Additional targets of each predicted token, which are drawn in advance and stored in a file.

The targets are drawn from a distribution over tokens, and each has the same weight. The expected gradient is that of
the cross-entropy with this distribution.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rnnlm.sequences.batches import RowSource, chunks
from rnnlm.sequences.segmentation import TokenRows, ends


@dataclass(frozen=True)
class TargetRows:
    """A RowSource with rows of the same lengths as those of the text. Its predicted tokens are additional targets."""

    path: Path  # The file of drawn targets, in the order of the stored text.
    draw: int
    firsts: np.ndarray  # The number of predicted tokens before each row and after the last one, (rows + 1,).

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @property
    def predicted_count(self) -> int:
        return int(self.firsts[-1])

    def read(self, first: int, last: int) -> TokenRows:
        targets = np.load(self.path, mmap_mode="r")[self.draw, self.firsts[first] : self.firsts[last]]
        ends_of_rows = self.firsts[first : last + 1] - self.firsts[first]
        # The first token of each row is stored as 0, because it is not predicted and has no additional target.
        return TokenRows(
            np.insert(targets, ends_of_rows[:-1], 0).astype(np.int32), ends_of_rows + np.arange(len(ends_of_rows))
        )

    def close(self) -> None:
        """Do nothing, because no file is kept open."""


def target_rows(text: RowSource, path: Path) -> list[TargetRows]:
    """Return as many RowSources as the file has additional targets for each token.

    The file is a .npy array, (targets, predicted tokens), in the order of the stored text.
    """
    firsts = ends(np.concatenate([np.zeros(0, np.int64), *(rows.predicted for rows in chunks(text))]))
    return [TargetRows(path, draw, firsts) for draw in range(len(np.load(path, mmap_mode="r")))]
