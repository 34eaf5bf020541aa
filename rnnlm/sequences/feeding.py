"""The data feed of training and evaluation: a torch IterableDataset, the same batches for any number of workers."""

from collections.abc import Iterator
from itertools import islice

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from rnnlm.sequences.batching import (
    EVALUATION_WINDOW,
    Batch,
    Mode,
    Source,
    ordered_batches,
    philox,
    shuffled_batches,
    stream_batches,
)


class TrainingBatches(IterableDataset[Batch]):
    """All epochs of a split, batch after batch, for a DataLoader with batch_size=None and any num_workers.

    (seed, epoch) decide the order, and nothing else. Of `world_size` processes rank r gets its share of the rows
    (lanes, in stream mode) of every batch: together they have the batch that one process would have. A worker
    yields every num_workers-th batch, and a DataLoader takes from the workers in turn: so the order is that of
    one worker.
    """

    def __init__(
        self,
        source: Source,
        mode: Mode,
        batch_size: int,  # of all ranks together
        window_length: int,
        seed: int,
        epochs: range = range(1),
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank}: expected 0 <= rank < world_size, which is {world_size}")
        self.source = source
        self.mode = mode
        self.batch_size = batch_size
        self.window_length = window_length
        self.seed = seed
        self.epochs = epochs
        self.rank = rank
        self.world_size = world_size

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        return islice(self.batches(), number, None, workers)

    def batches(self) -> Iterator[Batch]:
        """Those of this rank, whichever worker asks."""
        try:
            for epoch in self.epochs:
                yield from self.batches_of_epoch(epoch)
        finally:
            self.source.close()  # a forked worker must not inherit an open file

    def batches_of_epoch(self, epoch: int) -> Iterator[Batch]:
        if self.mode == "sentence":
            batches = shuffled_batches(self.source, self.batch_size, self.seed, epoch)
            return (batch.share(self.rank, self.world_size) for batch in batches)
        generator = philox(self.seed, epoch)
        return stream_batches(self.source, self.batch_size, self.window_length, generator, self.rank, self.world_size)

    @property
    def batches_an_epoch(self) -> int:
        """How many batches an epoch has at most, the same on all ranks: what a schedule is stretched over.

        A stream that begins at its offset may fill a window less.
        """
        if self.mode == "sentence":
            return -(-len(self.source) // self.batch_size)
        lanes = min(self.batch_size, self.source.predicted_count)
        return -(-(self.source.predicted_count // lanes) // self.window_length)


def training_loader(batches: TrainingBatches, workers: int) -> DataLoader[Batch]:
    """The batches, read ahead by `workers` processes; 0: read in this one."""
    # Spawned, not forked: the parent holds threads and a DuckDB file.
    context = "spawn" if workers else None
    return DataLoader(batches, batch_size=None, num_workers=workers, multiprocessing_context=context)


def evaluation_batches(
    source: Source, mode: Mode, batch_size: int, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """Every token of the split exactly once; a stream in one lane, its state carried from end to end.

    Of `world_size` processes rank r gets every world_size-th batch. A stream cannot be shared, as each window needs
    the state after the one before: rank 0 gets all of it.
    """
    if mode == "sentence":
        return islice(ordered_batches(source, batch_size), rank, None, world_size)
    return stream_batches(source, 1, EVALUATION_WINDOW) if rank == 0 else iter(())
