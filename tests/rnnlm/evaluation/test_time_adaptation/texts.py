"""Small texts as stored rows."""

import numpy as np

from rnnlm.sequences.segmentation import Mode, StreamCutter, TokenRows, join_rows, rows_from_lists

VOCABULARY = 12


def text_of(lines: list[list[int]], mode: Mode, block_length: int = 7) -> TokenRows:
    """The lines as stored rows: sentences, or blocks of a stream."""
    if mode == "sentence":
        return rows_from_lists([[2, *line, 3] for line in lines])
    cutter = StreamCutter(block_length=block_length)
    return join_rows([cutter.add(np.array([*line, 3], np.int32)) for line in lines] + [cutter.finish()])


def random_lines(seed: int, count: int = 12) -> list[list[int]]:
    draw = np.random.Generator(np.random.Philox(seed))
    return [draw.integers(4, VOCABULARY, size=length).tolist() for length in draw.integers(1, 12, size=count)]
