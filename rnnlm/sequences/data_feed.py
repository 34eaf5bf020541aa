"""Batches for training and evaluation: a torch IterableDataset, the same for any number of workers."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from rnnlm.sequences.batches import (
    EVALUATION_WINDOW,
    Batch,
    RowSource,
    StreamCut,
    cut_stream,
    ordered_batches,
    philox,
    shuffled_batches,
    stream_batches,
)
from rnnlm.sequences.drawn_targets import target_rows
from rnnlm.sequences.gpu_resident import ResidentText, resident_text, resident_windows, shuffled_resident_batches
from rnnlm.sequences.segmentation import Mode


@dataclass(eq=False)
class TrainingBatches(IterableDataset[Batch]):
    """All batches of all epochs of a split, for a DataLoader with batch_size=None and any num_workers.

    The order depends only on (seed, epoch). Each rank gets its share of the rows (in stream mode, lanes) of every
    batch: together the ranks have the batch of a single process. A worker yields every num_workers-th batch and a
    DataLoader takes them in turn, so the order does not depend on num_workers.
    first_batch: batches to skip at the beginning, over all epochs; they are not read.
    device: holds the whole split and every batch; None: CPU, read on demand.
    drawn_targets: a file of further targets, which follow the text's in target_ids, (b, t, k); None: it has (b, t).
    """

    source: RowSource
    mode: Mode
    batch_size: int  # over all ranks
    window_length: int
    seed: int
    epochs: range = range(1)
    rank: int = 0
    world_size: int = 1
    first_batch: int = 0
    device: torch.device | None = None
    drawn_targets: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank}: expected 0 <= rank < world_size = {self.world_size}")

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        return islice(self.batches(), number, None, workers)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of this rank, for all workers."""
        left_out = self.first_batch
        try:
            # The order depends on the lengths of the rows alone, so rows of further targets come in the same one.
            sources = [self.source, *(target_rows(self.source, self.drawn_targets) if self.drawn_targets else ())]
            texts = [(source, self.held(source)) for source in sources]
            for epoch in self.epochs:
                count = self.count_of_epoch(epoch)
                if left_out < count:
                    orders = [self.batches_of_epoch(*text, epoch, left_out) for text in texts]
                    yield from map(with_further_targets, *orders)
                left_out = max(0, left_out - count)
        finally:
            self.source.close()  # a forked worker must not inherit an open file

    def held(self, source: RowSource) -> ResidentText | None:
        """Return the whole source on the device, or None if it does not hold the split."""
        return None if self.device is None else resident_text(source, self.mode, self.device)

    def batches_of_epoch(
        self, source: RowSource, text: ResidentText | None, epoch: int, left_out: int
    ) -> Iterator[Batch]:
        mine = (self.rank, self.world_size, left_out)
        if self.mode == "stream":
            cut = self.cut_of_epoch(epoch)
            if text is not None:
                return resident_windows(text, self.window_length, cut, *mine)
            return stream_batches(source, self.window_length, cut, *mine)
        if text is not None:
            return shuffled_resident_batches(text, source, self.batch_size, self.seed, epoch, *mine)
        batches = shuffled_batches(source, self.batch_size, self.seed, epoch, left_out)
        return (batch.share(self.rank, self.world_size) for batch in batches)

    def cut_of_epoch(self, epoch: int | None) -> StreamCut:
        generator = None if epoch is None else philox(self.seed, epoch)
        return cut_stream(self.source.predicted_count, self.batch_size, self.window_length, generator)

    def count_of_epoch(self, epoch: int | None) -> int:
        """Return the number of batches in an epoch, the same on all ranks; of the longest epoch if None."""
        if self.mode == "sentence":
            return -(-len(self.source) // self.batch_size)
        return -(-self.cut_of_epoch(epoch).length // self.window_length)

    @property
    def batches_an_epoch(self) -> int:
        """Largest number of batches in an epoch, on which the schedule is based.

        A stream that starts at an offset may have one batch less.
        """
        return self.count_of_epoch(None)


def with_further_targets(batch: Batch, *further: Batch) -> Batch:
    """Give the batch's tokens the targets of the others, too."""
    if not further:
        return batch
    return replace(batch, target_ids=torch.stack([one.target_ids for one in (batch, *further)], dim=-1))


def training_loader(batches: TrainingBatches, workers: int) -> DataLoader[Batch]:
    """Make a loader that reads ahead in `workers` processes, or in this one if 0."""
    # Spawned, not forked: the parent holds threads and a DuckDB file.
    context = "spawn" if workers else None
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=context,
        worker_init_fn=ignore_interrupts,
        generator=torch.Generator(),  # else it draws from the global generator each time training resumes
    )


def ignore_interrupts(worker: int) -> None:
    """Ignore SIGINT in reader processes.

    Ctrl-C reaches every process of a terminal; the parent needs batches to stop.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def evaluation_batches(
    source: RowSource, mode: Mode, batch_size: int, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """Yield every token of the split exactly once; a stream in one lane, with its state carried throughout.

    Rank r gets every world_size-th batch. A stream cannot be shared, because each window needs the state after the
    previous one: rank 0 gets all of it.
    """
    if mode == "sentence":
        return islice(ordered_batches(source, batch_size), rank, None, world_size)
    if rank > 0:
        return iter(())
    return stream_batches(source, EVALUATION_WINDOW, cut_stream(source.predicted_count, 1, EVALUATION_WINDOW))
