"""How much of a text a model was trained on: the share of its lines that are also in the training text."""

import hashlib
from array import array
from collections.abc import Iterator

import numpy as np

from rnnlm.contained_paths import inside
from rnnlm.corpora.splits import letters_of
from rnnlm.errors import CorpusError
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, read_text
from rnnlm.home import Home
from rnnlm.models.training_provenance import TrainingProvenance
from rnnlm.records import DatasetRecord, Split
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.sql_tables import table

NOTICEABLE_SHARE = 0.1  # any two texts share some short lines, such as greetings
KEY_BYTES = 8  # of a line's digest, kept in memory for each line of training text


def seen_share(home: Home, origin: TrainingProvenance, scored: DatasetRecord, split: Split) -> float | None:
    """Share of the split's bytes in lines with the same letters as a line of the model's training split.

    Lines, not documents: one line more at the beginning of a text moves the borders of all its documents. None if the
    training text is not in this home.
    """
    trained = find_dataset(home, str(inside(home.datasets, origin.dataset_id)))
    if trained is None:
        return None
    try:
        known = np.unique(line_keys(home, trained, "train")[0])
    except CorpusError:  # its text is gone
        return None
    keys, sizes = line_keys(home, scored, split)
    total = int(sizes.sum())
    return float(sizes[np.isin(keys, known)].sum() / total) if total else 0.0


def leaked_share(home: Home, dataset: DatasetRecord, split: Split) -> float | None:
    """seen_share() of a split of the dataset that a model is trained on; None if its text is gone."""
    try:
        known = np.unique(line_keys(home, dataset, "train")[0])
        keys, sizes = line_keys(home, dataset, split)
    except CorpusError:
        return None
    total = int(sizes.sum())
    return float(sizes[np.isin(keys, known)].sum() / total) if total else 0.0


def line_keys(home: Home, dataset: DatasetRecord, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Of each non-blank line: (lines,) uint64 digests of its letters, and (lines,) int64 its bytes."""
    keys, sizes = bytearray(), array("q")
    for line in lines_of(home, dataset, split):
        keys += hashlib.blake2b(letters_of(line.strip()), digest_size=KEY_BYTES).digest()
        sizes.append(len(line))
    return np.frombuffer(bytes(keys), np.uint64), np.frombuffer(sizes, np.int64)


def lines_of(home: Home, dataset: DatasetRecord, split: Split) -> Iterator[bytes]:
    """CorpusError if the text is gone or changed."""
    folder = inside(home.corpora, dataset.corpus_digest[:16])
    with connect(dataset) as connection:
        rows = table(connection, "queries/read_documents", {"split": split})
    for row in rows:
        yield from (line for line in read_text(folder, HoldoutDocument(**row)).encode().split(b"\n") if line.strip())
