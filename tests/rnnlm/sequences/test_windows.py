"""Windows are taken from the stored text. Each token of a window has the next token as its target."""

import torch

from rnnlm.sequences.segmentation import StreamCutter, join_rows, rows_from_lists, sentences
from rnnlm.sequences.windows import cut_windows


def test_a_streams_windows_are_spread_to_its_end() -> None:
    cutter = StreamCutter(4)
    # The stream is 2, which is <bos>, followed by the numbers 10 to 30.
    blocks = cutter.add(torch.arange(10, 31).numpy())
    source = join_rows([blocks, cutter.finish()])
    inputs, targets = cut_windows(source, "stream", steps=5, count=3)
    assert inputs.tolist() == [[2, 10, 11, 12, 13], [17, 18, 19, 20, 21], [25, 26, 27, 28, 29]]
    assert targets.tolist() == [14, 22, 30]


def test_only_the_first_row_of_a_line_begins_a_sentence() -> None:
    lines = rows_from_lists([[10, 11, 12, 13, 14, 15, 16, 17], [20, 21], [30], [40], [50]])
    cut = sentences(lines, context_length=4)
    assert cut.predicted.tolist() == [4, 4, 1, 3, 2, 2, 2]
    inputs, targets = cut_windows(cut, "sentence", steps=60, count=64)
    # The windows are the longest two of five rows. The row 13 … 17 continues a line, so it is left out.
    assert inputs.tolist() == [[2, 10, 11], [2, 20, 21]]
    assert targets.tolist() == [12, 3]
