"""Count the training text, and choose the share of the counts in their mixture with a network.

The shares are fitted on the validation split, so that its figure flatters the mixture a little; that of the test split
does not.
"""

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from rnnlm.evaluation.ngram.count_arrays import read_count_model
from rnnlm.evaluation.ngram.kneser_ney import count_ngrams
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord
from rnnlm.evaluation.test_time_adaptation.interpolation import PRECISION, best_share
from rnnlm.models.count_model import CountModel
from rnnlm.models.mixture import CountMixture, histories
from rnnlm.sequences.batches import RowSource, chunks
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import contexts, shifted_rows
from rnnlm.storage.records import DatasetRecord

COUNTED_TOKENS = 20_000_000
FEWEST_TOKENS = 1_000  # of the validation split with a context of one length, for a share of their own


def fit_mixture(dataset: DatasetRecord, order: int, network_nll_nats: np.ndarray | None) -> tuple[CountMixture, float]:
    """Counts of the training split with the shares that are best on the validation split; the seconds of counting.

    network_nll_nats: (predicted tokens,) of the validation split, in the order of the text. None: there is no network.
    """
    counts, seconds = count_training_split(dataset, order)
    if network_nll_nats is None:
        return CountMixture(counts, np.ones(order)), seconds
    of_counts, lengths = split_log_probabilities(counts, StoredSplit(dataset, "valid"), dataset.mode)
    shares = fitted_shares(-np.asarray(network_nll_nats, np.float64), of_counts, lengths, order)
    return CountMixture(counts, shares), seconds


def count_training_split(dataset: DatasetRecord, order: int) -> tuple[CountModel, float]:
    """The Kneser-Ney model of the training split, and the seconds that counting took.

    Of a long text, the last COUNTED_TOKENS: counts take 20 bytes a token, and what was added last is the newest.
    """
    config = NgramConfig(order=order)
    with (
        tempfile.TemporaryDirectory(prefix="rnnlm-counts-") as folder,
        tempfile.TemporaryDirectory(dir=folder) as spill,
    ):
        counted = NgramRecord(folder=Path(folder), method="kneser-ney", order=order)
        start = time.perf_counter()
        first_row, size = first_counted_row(dataset), dataset.vocabulary_size
        count_ngrams(dataset.database, size, counted.database, config, Path(spill), first_row)
        return read_count_model(counted, config, size), time.perf_counter() - start


def first_counted_row(dataset: DatasetRecord) -> int:
    """The first row of the training split that is counted; rows are taken to be equally long."""
    tokens, rows = dataset.predicted_tokens["train"], dataset.sequence_counts["train"]
    return rows - round(rows * min(1.0, COUNTED_TOKENS / max(1, tokens)))


def split_log_probabilities(model: CountModel, source: RowSource, mode: Mode) -> tuple[np.ndarray, np.ndarray]:
    """(predicted tokens,) natural logarithms and lengths of known contexts, in the order of the text."""
    parts = [model.log_probabilities(*part) for part in contexts_of_split(source, mode, model.order - 1)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def fitted_shares(of_network: np.ndarray, of_counts: np.ndarray, context_lengths: np.ndarray, order: int) -> np.ndarray:
    """(order,) the share of the counts for each length of the known context, with the lowest loss on these tokens.

    Lengths with few tokens have the share that is best for all tokens together. The network always has some share.
    """
    shares = np.full(order, best_share(of_network, of_counts))
    for length in range(order):
        here = context_lengths == length
        if here.sum() >= FEWEST_TOKENS:
            shares[length] = best_share(of_network[here], of_counts[here])
    return np.minimum(shares, 1 - PRECISION)


def contexts_of_split(source: RowSource, mode: Mode, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """contexts() of all rows, chunk by chunk. Rows of a stream are one text: contexts reach back over its cuts."""
    earlier = np.zeros(0, np.int32)  # the last tokens of the chunk before
    for rows in chunks(source):
        if mode == "sentence":
            yield contexts(rows, length)
            continue
        inputs, words = shifted_rows(rows)
        text = np.concatenate([earlier if len(earlier) else inputs[:1], words])
        yield histories(text[None, :-1], length)[0, -len(words) :], words
        earlier = text[-max(1, length) :]


def with_contexts(
    parts: Iterable[np.ndarray], source: RowSource, mode: Mode, length: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """contexts_of_split() after the losses of its tokens, from arrays of any length in the order of the text."""
    waiting, remaining = np.zeros(0, np.float32), iter(parts)
    for before, words in contexts_of_split(source, mode, length):
        while len(waiting) < len(words):
            waiting = np.concatenate([waiting, next(remaining)])
        yield waiting[: len(words)], before, words
        waiting = waiting[len(words) :]


def mixed_nll(
    mixture: CountMixture, parts: Iterable[np.ndarray], source: RowSource, mode: Mode
) -> Iterator[np.ndarray]:
    """The mixture's losses in nats, chunk by chunk. parts: the network's, in the order of the text."""
    for part in with_contexts(parts, source, mode, mixture.context_length):
        yield mixture.nll(*part)
