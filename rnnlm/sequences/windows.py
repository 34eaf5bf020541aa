"""Windows of stored text, each with the token that follows its last token."""

from contextlib import closing

import numpy as np
import torch
from torch import Tensor

from rnnlm.sequences.batches import RowSource, TokenStream
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import shifted
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.tokenizers.text_tokenizer import BOS

ROWS_READ = 8_192  # The number of sentences at the beginning of the split from which the longest ones are chosen.
LONGEST_QUARTER = 4  # At least this number of sentences are read for each sentence that is chosen.


def stored_windows(dataset: DatasetRecord, split: Split, steps: int, count: int) -> tuple[Tensor, Tensor]:
    """Return the result of cut_windows() for a split of a dataset."""
    with closing(StoredSplit(dataset, split)) as source:
        return cut_windows(source, dataset.mode, steps, count)


def cut_windows(source: RowSource, mode: Mode, steps: int, count: int) -> tuple[Tensor, Tensor]:
    """Return inputs, (rows, t) int64, and the token after each row, (rows,).

    There are at most `count` rows of at most `steps` tokens. In stream mode, the windows are spread evenly over the
    text. In sentence mode, they are the beginnings of the longest sentences, truncated to the length of the shortest of
    them. Rows that continue a line longer than the context are left out.
    """
    if mode == "stream":
        stream = TokenStream(source)
        steps = min(steps, stream.predicted)
        count = min(count, stream.predicted - steps + 1)
        starts = np.linspace(0, stream.predicted - steps, count).astype(np.int64).tolist()
        cut = np.stack([stream.read(start, start + steps + 1) for start in starts])
    else:
        rows = source.read(0, min(len(source), ROWS_READ))
        beginnings = np.flatnonzero(rows.token_ids[rows.offsets[:-1]] == BOS)
        # There is at least one row, because a stored split has a token and its first row begins a line.
        assert len(beginnings)
        by_length = beginnings[np.argsort(-rows.predicted[beginnings], kind="stable")]
        longest = by_length[: min(count, -(-len(beginnings) // LONGEST_QUARTER))]
        steps = min(steps, int(rows.predicted[longest].min()))
        cut = np.stack([rows.token_ids[start : start + steps + 1] for start in rows.offsets[longest].tolist()])
    inputs, targets = shifted(torch.from_numpy(cut.astype(np.int64)))
    return inputs.contiguous(), targets[:, -1].contiguous()
