"""How much of a text is copied, line by line: from the text a model is trained on, or from earlier in the text itself.

Lines are the same if their letters are, so that copies with other digits, punctuation or white space count. Lines, not
documents: one line more at the beginning of a text moves the borders of all its documents, and of near copies most
lines are the same.
"""

import hashlib
from array import array
from collections.abc import Iterator

import numpy as np

from rnnlm.corpora.splits import letters_of
from rnnlm.errors import CorpusError
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, read_text
from rnnlm.models.training_provenance import TrainingProvenance
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, Record, Split
from rnnlm.storage.sql_statements import statement
from rnnlm.storage.stages import stage_key

NOTICEABLE_SHARE = 0.1  # any two texts share some short lines, such as greetings
MOSTLY_COPIES = 0.5  # source code repeats up to a third of its bytes
KEY_BYTES = 8  # of a line's digest
LINES_AT_ONCE = 1 << 20  # in memory
DOCUMENTS_AT_ONCE = 10_000


class CopiedShares(Record):
    """Shares of a held-out split's bytes."""

    seen: float  # in lines that the training split has too
    repeated: float  # in lines that the split already had earlier


def copied_shares(home: Home, dataset: DatasetRecord) -> dict[Split, CopiedShares] | None:
    """Return the copied shares of each held-out split with text, measured once per dataset. Text that is gone: None."""
    home.make(home.descriptions)
    path = home.descriptions / f"copies-{dataset.dataset_id}.json"

    def measure() -> dict[Split, dict[str, float]]:
        held_out: tuple[Split, ...] = ("valid", "test")
        lines = {split: line_keys(home, dataset, split) for split in held_out if dataset.predicted_tokens.get(split)}
        known = keys_in_training(home, dataset, *(keys for keys, _ in lines.values()))
        return {
            split: {"seen": share_of_bytes(sizes, np.isin(keys, known)), "repeated": repeated_share(keys, sizes)}
            for split, (keys, sizes) in lines.items()
        }

    try:
        stored, _ = write_json_once(home, path, stage_key("copies", dataset=dataset.dataset_id), measure)
    except CorpusError:
        return None
    return {split: CopiedShares(**shares) for split, shares in stored.items()}


def seen_sentence(text: str) -> str:
    """Return a sentence with a place for the share. text: `test text`, say."""
    return f"{{share}} of the {text} also occurs in the training text, line by line"


def repeated_sentence(text: str) -> str:
    """Return a sentence with a place for the share."""
    return f"{{share}} of the {text} repeats its own earlier lines"


def seen_share(home: Home, origin: TrainingProvenance, scored: DatasetRecord, split: Split) -> float | None:
    """Share of the split's bytes in lines of a model's training split; None if that text is not in this home."""
    trained = find_dataset(home, str(inside(home.datasets, origin.dataset_id)))
    if trained is None:
        return None
    keys, sizes = line_keys(home, scored, split)
    try:
        return share_of_bytes(sizes, np.isin(keys, keys_in_training(home, trained, keys)))
    except CorpusError:  # the corpus's text is gone
        return None


def repeated_share(keys: np.ndarray, sizes: np.ndarray) -> float:
    """Return the share of the bytes in lines that the text already had earlier. keys: from line_keys()."""
    is_copy = np.ones(len(keys), bool)
    is_copy[np.unique(keys, return_index=True)[1]] = False
    return share_of_bytes(sizes, is_copy)


def share_of_bytes(sizes: np.ndarray, chosen: np.ndarray) -> float:
    total = int(sizes.sum())
    return float(sizes[chosen].sum() / total) if total else 0.0


def keys_in_training(home: Home, dataset: DatasetRecord, *wanted: np.ndarray) -> np.ndarray:
    """Return those of the wanted line_keys() that a line of the training split has.

    Memory is that of the wanted ones.
    """
    known = np.unique(np.concatenate([np.zeros(0, np.uint64), *wanted]))
    found = np.zeros(len(known), bool)
    for keys, _ in key_batches(home, dataset, "train"):
        found |= np.isin(known, keys)
    return known[found]


def line_keys(home: Home, dataset: DatasetRecord, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return the digest of each non-blank line's letters, (lines,) uint64, and its bytes, (lines,) int64."""
    keys, sizes = zip(*key_batches(home, dataset, split), strict=True)
    return np.concatenate(keys), np.concatenate(sizes)


def key_batches(home: Home, dataset: DatasetRecord, split: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield line_keys() of LINES_AT_ONCE lines at a time. The last batch is smaller or empty."""
    keys, sizes = bytearray(), array("q")
    for line in lines_of(home, dataset, split):
        keys += hashlib.blake2b(letters_of(line.strip()), digest_size=KEY_BYTES).digest()
        sizes.append(len(line))
        if len(sizes) == LINES_AT_ONCE:
            yield np.frombuffer(bytes(keys), np.uint64), np.frombuffer(sizes, np.int64)
            keys, sizes = bytearray(), array("q")
    yield np.frombuffer(bytes(keys), np.uint64), np.frombuffer(sizes, np.int64)


def lines_of(home: Home, dataset: DatasetRecord, split: Split) -> Iterator[bytes]:
    """Yield the lines of a split's text. Raise CorpusError if the text is gone or has changed."""
    folder = inside(home.corpora, dataset.corpus_digest[:16])
    with connect(dataset) as connection:
        found = connection.execute(statement("queries/read_documents"), {"split": split})
        while rows := found.fetchmany(DOCUMENTS_AT_ONCE):
            for row in rows:
                text = read_text(folder, HoldoutDocument(*row))
                yield from (line for line in text.encode().split(b"\n") if line.strip())
