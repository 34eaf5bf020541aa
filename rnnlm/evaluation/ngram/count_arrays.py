"""A reader of a Kneser-Ney model's DuckDB file, which returns the model as arrays."""

from dataclasses import replace

import duckdb
import numpy as np

from rnnlm.models.count_model import CountModel, Level
from rnnlm.storage.sql_statements import statement

CONTEXT_COLUMNS = ("c1", "c2", "c3", "c4")


def read_count_model(connection: duckdb.DuckDBPyConnection, order: int, vocabulary_size: int) -> CountModel:
    """Return a Kneser-Ney model in memory.

    It needs 2 to 8 bytes for each n-gram and each context, plus the sums that are computed from them. The order of the
    model is the length of the longest n-gram in the text, which may be smaller than `order`. For instance, rows of one
    word contain no n-gram longer than a trigram.
    """
    ids = np.uint16 if vocabulary_size <= 1 << 16 else np.uint32
    levels: list[Level] = []
    above = np.zeros((0, 0), ids)  # The contexts of the previous level, one per row.
    for length in range(order):
        found = connection.execute(statement("ngram/read_ngrams"), {"ngram_order": length + 1}).fetchnumpy()
        if not len(found["word"]):
            break
        empty = np.zeros((len(found["word"]), 0), ids)
        columns = np.column_stack([empty, *(found[name] for name in CONTEXT_COLUMNS[:length])])
        starts = starts_of_runs(columns)
        contexts = columns[starts[:-1]]
        if levels:
            levels[-1] = replace(levels[-1], first_child=first_children(above, contexts))
        level = Level(
            tokens=contexts[:, -1].astype(ids) if length else np.zeros(1, ids),
            first_child=np.zeros(len(contexts) + 1, np.uint32),
            first_word=starts.astype(np.uint32),
            words=np.asarray(found["word"]).astype(ids),
            counts=smallest(np.asarray(found["count"])),
        )
        levels.append(level)
        above = contexts
    discounts = connection.execute(statement("ngram/read_discounts")).fetchnumpy()
    predictable = connection.execute(statement("ngram/read_vocabulary")).fetchnumpy()["token_id"]
    table = np.stack([np.asarray(discounts[name]) for name in ("d1", "d2", "d3")], axis=1)
    return CountModel(levels, table[: len(levels)], vocabulary_size, np.asarray(predictable).astype(ids))


def starts_of_runs(rows: np.ndarray) -> np.ndarray:
    """Return the index at which each run of equal rows begins, and then the number of rows, (runs + 1,).

    `rows`, (rows, n), must be ordered.
    """
    changed = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[0], 1 + np.flatnonzero(changed), [len(rows)]])


def first_children(contexts: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the index of the first child of each context, which is Level.first_child.

    `contexts`, (C, n), are those of the level, and `below`, (D, n + 1), are those of the next level. Both are ordered.
    """
    starts = starts_of_runs(below[:, :-1])
    children = np.zeros(len(contexts) + 1, np.int64)
    children[1 + matching_rows(contexts, below[starts[:-1], :-1])] = np.diff(starts)
    return np.cumsum(children).astype(np.uint32)


def matching_rows(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the index in `rows` of each row of `wanted`.

    Both arrays are ordered and have no equal rows, and `rows` contains all wanted rows.
    """
    both = np.concatenate([rows, wanted])
    order = np.lexsort([*both.T[::-1]]) if both.shape[1] else np.arange(len(both))
    # lexsort is stable, so each row comes before the wanted row that equals it.
    place_of_row = np.cumsum(order < len(rows)) - 1
    places: np.ndarray = place_of_row[order >= len(rows)]
    assert np.array_equal(rows[places], wanted)
    return places


def smallest(counts: np.ndarray) -> np.ndarray:
    """Return the counts in the narrowest type that can represent all of them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
