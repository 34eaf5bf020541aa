"""The statements of sql/ngram one by one, on rows small enough to count by hand."""

from collections.abc import Iterator

import duckdb
import pytest

from rnnlm.storage.sql_statements import statement

ROWS = [(0, [2, 4, 5, 3]), (1, [2, 3]), (2, [5, 4, 5])]  # the last one goes on a sentence that was cut


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("attach ':memory:' as dataset")
        connection.execute("use dataset")
        for name in ("schema/split", "schema/token_id", "schema/shifted_sequences", "schema/tokens"):
            connection.execute(statement(name))
        connection.executemany(
            "insert into shifted_sequences (split, sequence_id, token_ids) values ('train', ?, ?)", ROWS
        )
        connection.execute("use memory")
        for name in ("token_id", "ngrams", "openings", "contexts", "discounts"):
            connection.execute(statement("schema/token_id" if name == "token_id" else f"ngram/create_{name}"))
        connection.execute(statement("ngram/view_positions"))
        yield connection


def grams(connection: duckdb.DuckDBPyConnection, order: int) -> dict[tuple[int, ...], int]:
    """Context and word → count, of one order."""
    rows = connection.execute(
        "select c4, c3, c2, c1, word, count from ngrams where ngram_order = ?", [order]
    ).fetchall()
    assert all(row[: 5 - order] == (0,) * (5 - order) for row in rows)  # nothing beyond the order
    return {row[5 - order : 5]: row[5] for row in rows}


def test_a_position_has_the_tokens_before_it_in_its_own_row(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute(
        "select sequence_id, position, c4, c3, c2, c1, word from positions order by sequence_id, position"
    ).fetchall()
    assert rows == [
        (0, 0, 0, 0, 0, 2, 4),
        (0, 1, 0, 0, 2, 4, 5),
        (0, 2, 0, 2, 4, 5, 3),
        (1, 0, 0, 0, 0, 2, 3),
        (2, 0, 0, 0, 0, 5, 4),
        (2, 1, 0, 0, 5, 4, 5),
    ]


def test_the_highest_order_counts_occurrences_of_whole_n_grams(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(statement("ngram/count_occurrences"), {"ngram_order": 3, "first_row": 0})
    assert grams(connection, 3) == {(2, 4, 5): 1, (4, 5, 3): 1, (5, 4, 5): 1}


def test_lower_orders_count_what_stands_to_the_left(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(statement("ngram/count_occurrences"), {"ngram_order": 3, "first_row": 0})
    connection.execute(statement("ngram/count_openings"), {"ngram_order": 3, "first_row": 0})
    connection.execute(statement("ngram/count_left_extensions"), {"ngram_order": 2})
    # (4, 5) has 2 and 5 to its left; (5, 4) a row's beginning; those after <bos> count occurrences.
    assert grams(connection, 2) == {(4, 5): 2, (5, 3): 1, (2, 4): 1, (2, 3): 1, (5, 4): 1}
    connection.execute(statement("ngram/count_left_extensions"), {"ngram_order": 1})
    assert grams(connection, 1) == {(4,): 2, (5,): 1, (3,): 2}


def test_an_n_gram_after_bos_keeps_its_raw_count_at_every_order(connection: duckdb.DuckDBPyConnection) -> None:
    connection.executemany(
        "insert into dataset.shifted_sequences (split, sequence_id, token_ids) values ('train', ?, ?)",
        [(3, [2, 4, 5, 3]), (4, [5, 4, 5])],
    )
    connection.execute(statement("ngram/count_occurrences"), {"ngram_order": 5, "first_row": 0})
    connection.execute(statement("ngram/count_openings"), {"ngram_order": 5, "first_row": 0})
    connection.execute(statement("ngram/count_left_extensions"), {"ngram_order": 4})
    connection.execute(statement("ngram/count_left_extensions"), {"ngram_order": 3})
    connection.execute(statement("ngram/count_left_extensions"), {"ngram_order": 2})
    assert grams(connection, 5) == {}
    assert grams(connection, 4) == {(2, 4, 5, 3): 2}
    # Twice a cut row begins with 5, 4, 5: to its left stands one thing, a beginning.
    assert grams(connection, 3) == {(2, 4, 5): 2, (4, 5, 3): 1, (5, 4, 5): 1}
    assert grams(connection, 2) == {(2, 4): 2, (2, 3): 1, (4, 5): 2, (5, 3): 1, (5, 4): 1}


def test_discounts_come_from_the_counts_of_counts(connection: duckdb.DuckDBPyConnection) -> None:
    """n1 = 4, n2 = 2, n3 = n4 = 1: Y = 4 / 8; D1 = 1 - 2 Y 2/4, D2 = 2 - 3 Y 1/2, D3 = 3 - 4 Y 1/1."""
    counts = [1, 1, 1, 1, 2, 2, 3, 4, 9]
    connection.executemany(
        "insert into ngrams values (1, 0, 0, 0, 0, ?, ?)", [[4 + index, count] for index, count in enumerate(counts)]
    )
    connection.execute(statement("ngram/measure_discounts"), {"ngram_order": 1})
    assert connection.execute("select n1, n2, n3, n4, d1, d2, d3, estimated from discounts").fetchall() == [
        (4, 2, 1, 1, 0.5, 1.25, 1.0, True)
    ]
    connection.execute(statement("ngram/measure_contexts"), {"ngram_order": 1})
    # total 4 + 4 + 3 + 4 + 9 = 24; gamma = (4 · 0.5 + 2 · 1.25 + 3 · 1) / 24
    assert connection.execute("select total, gamma from contexts").fetchall() == [(24, 7.5 / 24)]


@pytest.mark.parametrize(
    "counts",
    [
        [1, 2, 3],  # n4 is 0
        [2, 3, 4],  # n1 is 0
        [1, 2, *[3] * 9, *[4] * 9],  # D2 = 2 - 3 · 1/3 · 9 is below 0
    ],
)
def test_counts_of_counts_that_give_no_discount_leave_the_fixed_ones(
    connection: duckdb.DuckDBPyConnection, counts: list[int]
) -> None:
    connection.executemany(
        "insert into ngrams values (1, 0, 0, 0, 0, ?, ?)", [[4 + index, count] for index, count in enumerate(counts)]
    )
    connection.execute(statement("ngram/measure_discounts"), {"ngram_order": 1})
    assert connection.execute("select d1, d2, d3, estimated from discounts").fetchall() == [(0.5, 1.0, 1.5, False)]
    assert connection.execute(statement("ngram/read_unestimated_orders")).fetchall() == [(1,)]
