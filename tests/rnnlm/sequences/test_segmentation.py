"""The rows into which lines are split agree with a count by hand and with a definition in plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlm.sequences.segmentation import StreamCutter, TokenRows, rows_from_lists, running_text, sentences

LINES = st.lists(st.lists(st.integers(4, 99), max_size=12), max_size=8)


def lists(rows: TokenRows) -> list[list[int]]:
    return [rows.read(row, row + 1).token_ids.tolist() for row in range(len(rows))]


@given(LINES, st.integers(1, 6))
@pytest.mark.long
def test_sentences_are_cut_as_defined(lines: list[list[int]], length: int) -> None:
    expected = []
    for line in lines:
        ids = [2, *line, 3]
        if line:
            expected += [ids[start : start + length + 1] for start in range(0, len(ids) - 1, length)]
    assert lists(sentences(rows_from_lists(lines), length)) == expected


@given(LINES, st.integers(2, 6), st.integers(1, 4))
def test_a_stream_is_cut_the_same_however_it_comes_in(lines: list[list[int]], length: int, step: int) -> None:
    text = [2, *(token for line in lines for token in [*line, 3])]
    expected = [text[start : start + length + 1] for start in range(0, len(text) - 1, length)]
    cutter = StreamCutter(length)
    parts = [
        cutter.add(running_text(rows_from_lists(lines[first : first + step]))) for first in range(0, len(lines), step)
    ]
    assert [row for part in [*parts, cutter.finish()] for row in lists(part)] == expected
