"""A textbook's back-off model, which is NOT a normalized probability distribution.

The corpus is one stream of words. The score of w is count(context, w) / total(context) of the first order m = order … 2
with count(context, w) > 0. If there is none, the score is (count(w) + 1) / (N + V). The scores of all words after a
context sum to more than 1. Hence the exponential of the mean negative logarithm, which the book reports, is not a
perplexity.
"""

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from rnnlm.errors import CorpusError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, create_tables, open_database, train_once
from rnnlm.sequences.sql_tables import insert, token_type
from rnnlm.storage.home import Home
from rnnlm.storage.records import SPLITS, CorpusRecord
from rnnlm.storage.sql_statements import statement

BOOK_WORD = re.compile(r"\b[a-zA-Z0-9]+\b|[.]")  # The textbook's pattern for tokens in lower-cased text.
TRAINING_WORD_SHARE = 0.9  # The fraction of the words, from the beginning of the text, that are the training part.
CONTEXT = 4  # The number of preceding words that are stored with each word, in the columns c1 to c4.
POSITIONS_AT_ONCE = 1_000_000


def train_textbook(home: Home, corpus: CorpusRecord, config: NgramConfig) -> NgramRecord:
    """Count the n-grams in the first 90 % of the corpus's words, and store all words with their contexts."""

    def train(database: Path) -> None:
        files = [corpus.folder / corpus.files[role] for role in ("text", *SPLITS) if role in corpus.files]
        ids, words = number_words(word for path in files for word in words_of(path))
        cut = int(TRAINING_WORD_SHARE * len(ids))
        if not 0 < cut < len(ids):
            raise CorpusError(
                f"{corpus.source}: expected at least 2 words, one to count and one to test on, found {len(ids)}"
            )
        count_book_ngrams(ids, words, cut, database, config)

    return train_once(home, config, {"corpus": corpus.digest}, train)


def words_of(path: Path) -> Iterator[str]:
    """Yield the tokens of a text by the textbook's definition.

    Lines are read one by one, because no token spans two lines.
    """
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield from BOOK_WORD.findall(line.lower())


def number_words(stream: Iterator[str]) -> tuple[np.ndarray, list[str]]:
    """Assign numbers to the words of the stream, from 1 on in the order of their first occurrence.

    Return the ids, (words,) uint32, and a list that has the word with id i at index i - 1.
    """
    numbers: dict[str, int] = {}
    ids = array("I", (numbers.setdefault(word, len(numbers) + 1) for word in stream))
    return np.frombuffer(ids, dtype=np.uint32) if ids else np.zeros(0, np.uint32), list(numbers)


def count_book_ngrams(ids: np.ndarray, words: list[str], cut: int, database: Path, config: NgramConfig) -> None:
    """Write the n-gram counts of ids[:cut] to the new file `database`, and ids[cut:] as its test part."""
    # The highest word number in the training part. Words are numbered by their first occurrence, so all lower numbers
    # occur in it, too.
    known = int(ids[:cut].max())
    with open_database(database, config) as connection:
        create_tables(connection, len(words) + 1)
        connection.execute(statement("ngram/create_positions"))
        kind = token_type(len(words) + 1)
        insert_positions(connection, "train", ids[:cut], kind)
        insert_positions(connection, "test", ids[cut:], kind)
        vocabulary = pa.table({"token_id": pa.array(range(1, known + 1), kind), "token": words[:known]})
        insert(connection, "ngram/insert_words", vocabulary)
        for order in range(1, config.order + 1):
            connection.execute(statement("ngram/count_occurrences"), {"ngram_order": order, "first_row": 0})
            connection.execute(statement("ngram/measure_contexts"), {"ngram_order": order})


def insert_positions(connection: duckdb.DuckDBPyConnection, split: str, ids: np.ndarray, kind: pa.DataType) -> None:
    """Insert a row for each id with the four ids before it. An id before the beginning of the text is 0."""
    padded = np.concatenate([np.zeros(CONTEXT, ids.dtype), ids])
    for start in range(0, len(ids), POSITIONS_AT_ONCE):
        stop = min(start + POSITIONS_AT_ONCE, len(ids))
        moved = {
            name: pa.array(padded[start + CONTEXT - back : stop + CONTEXT - back], kind)
            for name, back in (("c4", 4), ("c3", 3), ("c2", 2), ("c1", 1), ("word", 0))
        }
        table = pa.table({"position": pa.array(range(start, stop), pa.int64()), **moved})
        insert(connection, "ngram/insert_positions", table, {"split": split})
