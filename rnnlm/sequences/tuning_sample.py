"""The tuning sample, a part of the validation lines that is used for model selection during training.

The checkpoint, the temperature and the weights of a mixture are selected on this text. A model's score on this text is
biased, so promotion compares models on the other validation lines. The digest of a line determines whether it is used
for model selection or for comparing models; see rnnlm/corpora/line_digests.py.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from rnnlm.sequences.batches import Batch, RowSource
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import TokenRows, join_rows
from rnnlm.sequences.validation_lines import choosing_tokens, first_tokens_of_rows
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.text_tokenizer import PAD

RANGES = 8
NEIGHBOURING = 64  # Two rows are read together if their numbers differ by less than this number.


class RowSample:
    """A RowSource with about `tokens` predicted tokens of another source. The sample is the same in every call.

    The sample consists of ranges of rows, evenly spread over the source. In stream mode the ranges are read as one
    text, so the first tokens of each range have the wrong context.
    """

    def __init__(self, source: RowSource, tokens: int) -> None:
        self.source = source
        # The number of rows to sample, which is proportional to the wanted number of tokens.
        wanted = -(-min(tokens, source.predicted_count) * len(source) // max(1, source.predicted_count))
        count = min(RANGES, wanted)
        # Range i ends where the i-th of `count` equal parts of the source ends. Thus the last row, which may be
        # shorter, remains the last one.
        ends = [len(source) * (index + 1) // count for index in range(count)]
        sizes = [wanted * (index + 1) // count - wanted * index // count for index in range(count)]
        self.ranges = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.row_count = wanted
        self.predicted_count = sum(int(source.read(*rows).predicted.sum()) for rows in self.ranges)

    def __len__(self) -> int:
        return self.row_count

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows from `first` to `last` - 1 of the sample."""
        parts, before = [], 0
        for start, end in self.ranges:
            low, high = max(first, before), min(last, before + end - start)
            if low < high:
                parts.append(self.source.read(start + low - before, start + high - before))
            before += end - start
        return join_rows(parts)

    def close(self) -> None:
        self.source.close()


class SelectedRows:
    """A RowSource with selected rows of another source.

    `numbers` are the ascending numbers of the rows, (rows,). `predicted_count` is the number of their predicted tokens.
    """

    def __init__(self, source: RowSource, numbers: np.ndarray, predicted_count: int) -> None:
        self.source, self.numbers, self.predicted_count = source, numbers, predicted_count

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows from `first` to `last` - 1 of the selection."""
        wanted = self.numbers[first:last]
        groups = np.split(wanted, np.flatnonzero(np.diff(wanted) > NEIGHBOURING) + 1)
        return join_rows(
            [self.source.read(int(rows[0]), int(rows[-1]) + 1).take(rows - rows[0]) for rows in groups if len(rows)]
        )

    def close(self) -> None:
        self.source.close()


class TuningSample:
    """About `tokens` predicted tokens of the validation lines that are used for model selection.

    The sample is the same in every call. If `tokens` is None, it consists of all lines that are used for model
    selection.
    """

    def __init__(self, dataset: DatasetRecord, tokens: int | None) -> None:
        self.mode = dataset.mode
        wanted = dataset.predicted_tokens["valid"] if tokens is None else tokens
        split, of_tokens = StoredSplit(dataset, "valid"), choosing_tokens(dataset)
        # In sentence mode each row belongs to a single line, so whole rows are selected.
        if dataset.mode == "sentence":
            rows = np.flatnonzero(of_tokens[first_tokens_of_rows(dataset)])
            self.sample = RowSample(SelectedRows(split, rows, int(of_tokens.sum())), wanted)
            self.predicted_count = self.sample.predicted_count
            return
        # The fraction of tokens that are used for model selection, which is about half. The other tokens of a stream
        # are also read, because the states depend on them, but their losses are not counted.
        share = of_tokens.mean()
        self.sample = RowSample(split, min(round(wanted / share), split.predicted_count))
        self.chosen = self.tokens_of_sample(of_tokens)
        # A sample of very few tokens may contain no token that is used for model selection. In this case, the sample is
        # the whole split.
        if not self.chosen.any():
            self.sample = RowSample(split, split.predicted_count)
            self.chosen = self.tokens_of_sample(of_tokens)
        self.predicted_count = int(self.chosen.sum())

    def tokens_of_sample(self, of_tokens: np.ndarray) -> np.ndarray:
        """Return the values of `of_tokens`, (tokens,), for the tokens of the sample in stream mode."""
        block = int(self.sample.source.read(0, 1).predicted[0])
        return np.concatenate([of_tokens[first * block : last * block] for first, last in self.sample.ranges])

    def batches(self, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Yield each token of the sample once as a target. Rank r gets every world_size-th batch."""
        batches = evaluation_batches(self.sample, self.mode, batch_size, rank, world_size)
        return batches if self.mode == "sentence" else self.without_other_targets(batches)

    def without_other_targets(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches of a stream in order. Only tokens that are used for model selection remain targets.

        All other targets are replaced by `<pad>`.
        """
        done = 0
        for batch in batches:
            chosen = torch.from_numpy(self.chosen[done : done + batch.target_ids.shape[1]])
            done += batch.target_ids.shape[1]
            targets = batch.target_ids.masked_fill(~chosen, PAD)
            yield replace(batch, target_ids=targets, predicted_tokens=int(chosen.sum()))

    def close(self) -> None:
        self.sample.close()
