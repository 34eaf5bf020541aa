"""Batches for training and evaluation as a torch IterableDataset, which are the same for any number of workers."""

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

    The order depends only on (seed, epoch). Each rank gets its part of the rows (in stream mode, of the lanes) of every
    batch. Together, the parts of all ranks are the batch that a single process would get. Each worker yields every
    num_workers-th batch, and the DataLoader reads from the workers in turn, so the order does not depend on
    num_workers.

    Args:
        first_batch: The number of batches to skip without reading them, counted over all epochs.
        device: The device that holds the whole split and every batch. If None, batches are read from disk to the CPU.
        drawn_targets: A file with additional targets. They follow the text's target in target_ids, which then has the
            shape (b, t, k) instead of (b, t).
    """

    source: RowSource
    mode: Mode
    batch_size: int  # The number of rows of a batch over all ranks.
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
        """Yield all batches of this rank. They are not yet divided among the workers."""
        left_out = self.first_batch
        try:
            # The additional targets get the same order as the text, because the order depends only on the lengths of
            # the rows, which are equal.
            sources = [self.source, *(target_rows(self.source, self.drawn_targets) if self.drawn_targets else ())]
            texts = [(source, self.held(source)) for source in sources]
            for epoch in self.epochs:
                count = self.count_of_epoch(epoch)
                if left_out < count:
                    orders = [self.batches_of_epoch(*text, epoch, left_out) for text in texts]
                    yield from map(with_further_targets, *orders)
                left_out = max(0, left_out - count)
        finally:
            self.source.close()  # The file is closed, because a forked worker must not inherit it.

    def held(self, source: RowSource) -> ResidentText | None:
        """Return the whole split as tensors on the device, or None if the split is read from disk."""
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
        """Return the number of batches in an epoch, which is the same on all ranks.

        If `epoch` is None, return the number for the longest epoch.
        """
        if self.mode == "sentence":
            return -(-len(self.source) // self.batch_size)
        return -(-self.cut_of_epoch(epoch).length // self.window_length)

    @property
    def batches_an_epoch(self) -> int:
        """The number of batches in the longest epoch, from which the learning-rate schedule is computed.

        In stream mode, an epoch may have one batch less, because it begins at a random offset.
        """
        return self.count_of_epoch(None)


def with_further_targets(batch: Batch, *further: Batch) -> Batch:
    """Return the batch with its own targets, followed by the targets of the other batches as additional targets."""
    if not further:
        return batch
    return replace(batch, target_ids=torch.stack([one.target_ids for one in (batch, *further)], dim=-1))


def training_loader(batches: TrainingBatches, workers: int) -> DataLoader[Batch]:
    """Return a loader that prepares batches in `workers` processes, or in this process if their number is 0."""
    # The workers are spawned and not forked, because the parent has threads and an open DuckDB file.
    context = "spawn" if workers else None
    # The loader gets its own generator, because it would otherwise draw from the global one whenever training resumes.
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=context,
        worker_init_fn=ignore_interrupts,
        generator=torch.Generator(),
    )


def ignore_interrupts(worker: int) -> None:
    """Ignore SIGINT in a reader process.

    On Ctrl-C, a terminal sends SIGINT to every process. Only the main process handles it, and it still needs batches
    from the readers until it stops.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def evaluation_batches(
    source: RowSource, mode: Mode, batch_size: int, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """Yield every token of the split exactly once. In stream mode there is one lane, and its state is never reset.

    Rank r gets every world_size-th batch. A stream cannot be divided, because each window needs the state after the
    previous one. Hence rank 0 gets the whole stream.
    """
    if mode == "sentence":
        return islice(ordered_batches(source, batch_size), rank, None, world_size)
    if rank > 0:
        return iter(())
    return stream_batches(source, EVALUATION_WINDOW, cut_stream(source.predicted_count, 1, EVALUATION_WINDOW))
