"""The fraction of a text that is copied, either from the training text of a model or from an earlier part of the text.

Two lines are the same if their letters are the same. Hence lines that differ in digits, punctuation or white space are
copies, too. Lines are compared instead of documents, because an additional line at the beginning of a text changes the
borders of its documents. Nearly identical documents have most of their lines in common.
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

# The fraction below which copies are not reported, because any two texts have some short lines in common, such as
# greetings.
NOTICEABLE_SHARE = 0.1
# The fraction above which a text is reported as mostly copied. In source code, up to a third of the bytes are repeated
# lines.
MOSTLY_COPIES = 0.5
KEY_BYTES = 8  # The number of bytes of a line's digest.
LINES_AT_ONCE = 1 << 20  # The number of lines whose digests are in memory at a time.
DOCUMENTS_AT_ONCE = 10_000


class CopiedShares(Record):
    """The fractions of a held-out split's bytes that are copied from elsewhere."""

    seen: float  # The fraction of the bytes in lines that also occur in the training split.
    repeated: float  # The fraction of the bytes in lines that occur earlier in the same split.


def copied_shares(home: Home, dataset: DatasetRecord) -> dict[Split, CopiedShares] | None:
    """Return how much of each held-out split with text is copied, or None if the text no longer exists.

    The fractions are measured once for each dataset.
    """
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
    """Return a warning about text that also occurs in training, with a placeholder for the fraction that occurs there.

    `text` is the name of the text, for instance `test text`.
    """
    return f"{{share}} of the {text} also occurs in the training text, line by line"


def repeated_sentence(text: str) -> str:
    """Return a warning about repeated text, with a placeholder for the fraction of the text that is repeated."""
    return f"{{share}} of the {text} repeats its own earlier lines"


def seen_share(home: Home, origin: TrainingProvenance, scored: DatasetRecord, split: Split) -> float | None:
    """Return the fraction of the split's bytes in lines that occur in a model's training split.

    Return None if the training text is not in this rnnlm home.
    """
    trained = find_dataset(home, str(inside(home.datasets, origin.dataset_id)))
    if trained is None:
        return None
    keys, sizes = line_keys(home, scored, split)
    try:
        return share_of_bytes(sizes, np.isin(keys, keys_in_training(home, trained, keys)))
    except CorpusError:  # The training text no longer exists.
        return None


def repeated_share(keys: np.ndarray, sizes: np.ndarray) -> float:
    """Return the fraction of the bytes in lines that occur earlier. `keys` is the result of line_keys()."""
    is_copy = np.ones(len(keys), bool)
    is_copy[np.unique(keys, return_index=True)[1]] = False
    return share_of_bytes(sizes, is_copy)


def share_of_bytes(sizes: np.ndarray, chosen: np.ndarray) -> float:
    total = int(sizes.sum())
    return float(sizes[chosen].sum() / total) if total else 0.0


def keys_in_training(home: Home, dataset: DatasetRecord, *wanted: np.ndarray) -> np.ndarray:
    """Return the wanted keys that belong to a line of the training split. Keys are those of line_keys().

    The memory depends only on the number of wanted keys.
    """
    known = np.unique(np.concatenate([np.zeros(0, np.uint64), *wanted]))
    found = np.zeros(len(known), bool)
    for keys, _ in key_batches(home, dataset, "train"):
        found |= np.isin(known, keys)
    return known[found]


def line_keys(home: Home, dataset: DatasetRecord, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return a digest of the letters, uint64, and the number of bytes, int64, of each line that is not blank.

    Both arrays have shape (lines,).
    """
    keys, sizes = zip(*key_batches(home, dataset, split), strict=True)
    return np.concatenate(keys), np.concatenate(sizes)


def key_batches(home: Home, dataset: DatasetRecord, split: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the results of line_keys() for LINES_AT_ONCE lines at a time. The last batch is smaller or empty."""
    keys, sizes = bytearray(), array("q")
    for line in lines_of(home, dataset, split):
        keys += hashlib.blake2b(letters_of(line.strip()), digest_size=KEY_BYTES).digest()
        sizes.append(len(line))
        if len(sizes) == LINES_AT_ONCE:
            yield np.frombuffer(bytes(keys), np.uint64), np.frombuffer(sizes, np.int64)
            keys, sizes = bytearray(), array("q")
    yield np.frombuffer(bytes(keys), np.uint64), np.frombuffer(sizes, np.int64)


def lines_of(home: Home, dataset: DatasetRecord, split: Split) -> Iterator[bytes]:
    """Yield the lines of a split's text. Raise CorpusError if the text no longer exists or has changed."""
    folder = inside(home.corpora, dataset.corpus_digest[:16])
    with connect(dataset) as connection:
        found = connection.execute(statement("queries/read_documents"), {"split": split})
        while rows := found.fetchmany(DOCUMENTS_AT_ONCE):
            for row in rows:
                text = read_text(folder, HoldoutDocument(*row))
                yield from (line for line in text.encode().split(b"\n") if line.strip())
