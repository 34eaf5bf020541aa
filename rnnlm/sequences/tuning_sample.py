"""The held-out text on which training chooses: the validation lines whose digest says so, or a sample of them.

The checkpoint, the temperature and the shares of a mixture are chosen on it. Promotion judges on the other lines,
because a choice must not be judged on the text it was made on. See rnnlm/corpora/line_digests.py.
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
NEIGHBOURING = 64  # rows less than this apart are read together


class RowSample:
    """A RowSource of about `tokens` predicted tokens of another one; always the same rows.

    They are ranges of rows, evenly spread over the source. In stream mode the ranges are read as one text, so the first
    token of each follows a token that does not precede it in the corpus.
    """

    def __init__(self, source: RowSource, tokens: int) -> None:
        self.source = source
        wanted = -(-min(tokens, source.predicted_count) * len(source) // max(1, source.predicted_count))  # rows
        count = min(RANGES, wanted)
        # Range i ends where part i of the source ends, so the last row, which may be shorter, stays last.
        ends = [len(source) * (index + 1) // count for index in range(count)]
        sizes = [wanted * (index + 1) // count - wanted * index // count for index in range(count)]
        self.ranges = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.row_count = wanted
        self.predicted_count = sum(int(source.read(*rows).predicted.sum()) for rows in self.ranges)

    def __len__(self) -> int:
        return self.row_count

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows first … last - 1 of the sample."""
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
    """A RowSource of some rows of another one. numbers: (rows,) ascending; predicted_count: their tokens."""

    def __init__(self, source: RowSource, numbers: np.ndarray, predicted_count: int) -> None:
        self.source, self.numbers, self.predicted_count = source, numbers, predicted_count

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows first … last - 1 of the selection."""
        wanted = self.numbers[first:last]
        groups = np.split(wanted, np.flatnonzero(np.diff(wanted) > NEIGHBOURING) + 1)
        return join_rows(
            [self.source.read(int(rows[0]), int(rows[-1]) + 1).take(rows - rows[0]) for rows in groups if len(rows)]
        )

    def close(self) -> None:
        self.source.close()


class TuningSample:
    """About `tokens` predicted tokens of the validation lines that choose; None: all of them. Always the same."""

    def __init__(self, dataset: DatasetRecord, tokens: int | None) -> None:
        self.mode = dataset.mode
        wanted = dataset.predicted_tokens["valid"] if tokens is None else tokens
        split, of_tokens = StoredSplit(dataset, "valid"), choosing_tokens(dataset)
        if dataset.mode == "sentence":  # a row is of one line
            rows = np.flatnonzero(of_tokens[first_tokens_of_rows(dataset)])
            self.sample = RowSample(SelectedRows(split, rows, int(of_tokens.sum())), wanted)
            self.predicted_count = self.sample.predicted_count
            return
        # All tokens are read, for the state before each; those of the other lines, as many again, are not counted.
        share = of_tokens.mean()
        self.sample = RowSample(split, min(round(wanted / share), split.predicted_count))
        self.chosen = self.tokens_of_sample(of_tokens)
        if not self.chosen.any():  # a sample of very few tokens
            self.sample = RowSample(split, split.predicted_count)
            self.chosen = self.tokens_of_sample(of_tokens)
        self.predicted_count = int(self.chosen.sum())

    def tokens_of_sample(self, of_tokens: np.ndarray) -> np.ndarray:
        """Pick the sample's tokens, in stream mode, from those of the split, (tokens,)."""
        block = int(self.sample.source.read(0, 1).predicted[0])
        return np.concatenate([of_tokens[first * block : last * block] for first, last in self.sample.ranges])

    def batches(self, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Yield every choosing token of the sample once; rank r gets every world_size-th batch."""
        batches = evaluation_batches(self.sample, self.mode, batch_size, rank, world_size)
        return batches if self.mode == "sentence" else self.without_other_targets(batches)

    def without_other_targets(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches of a stream in the order of the text, with `<pad>` for targets that do not choose."""
        done = 0
        for batch in batches:
            chosen = torch.from_numpy(self.chosen[done : done + batch.target_ids.shape[1]])
            done += batch.target_ids.shape[1]
            targets = batch.target_ids.masked_fill(~chosen, PAD)
            yield replace(batch, target_ids=targets, predicted_tokens=int(chosen.sum()))

    def close(self) -> None:
        self.sample.close()
