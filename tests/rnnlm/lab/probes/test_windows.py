"""Windows are cut from the stored text, each with the token that comes next."""

import torch

from rnnlm.lab.probes.gradients import cut_windows, stored_windows
from rnnlm.sequences.segmentation import StreamCutter, join_rows, rows_from_lists, sentences
from rnnlm.storage.records import DatasetRecord


def test_a_streams_windows_are_spread_to_its_end() -> None:
    cutter = StreamCutter(4)
    blocks = cutter.add(torch.arange(10, 31).numpy())  # the stream is <bos> = 2, then 10 … 30
    source = join_rows([blocks, cutter.finish()])
    inputs, targets = cut_windows(source, "stream", steps=5, count=3)
    assert inputs.tolist() == [[2, 10, 11, 12, 13], [17, 18, 19, 20, 21], [25, 26, 27, 28, 29]]
    assert targets.tolist() == [14, 22, 30]


def test_a_short_stream_gives_one_short_window() -> None:
    inputs, targets = cut_windows(rows_from_lists([[2, 7, 8]]), "stream", steps=5, count=3)
    assert (inputs.tolist(), targets.tolist()) == ([[2, 7]], [8])


def test_of_sentences_the_longest_quarter_is_cut_to_one_length() -> None:
    sentences = [[2, 3], [2, 5, 6, 7, 3], [2, 4, 3], [2, 8, 9, 3], [2, 3], [2, 3], [2, 3], [2, 3]]
    inputs, targets = cut_windows(rows_from_lists(sentences), "sentence", steps=60, count=64)
    assert inputs.tolist() == [[2, 5, 6], [2, 8, 9]]
    assert targets.tolist() == [7, 3]


def test_only_the_first_row_of_a_line_begins_a_sentence() -> None:
    lines = rows_from_lists([[10, 11, 12, 13, 14, 15, 16, 17], [20, 21], [30], [40], [50]])
    cut = sentences(lines, context_length=4)
    assert cut.predicted.tolist() == [4, 4, 1, 3, 2, 2, 2]
    inputs, targets = cut_windows(cut, "sentence", steps=60, count=64)
    assert inputs.tolist() == [[2, 10, 11], [2, 20, 21]]  # the longest two of five; 13 … 17 went on without <bos>
    assert targets.tolist() == [12, 3]


def test_no_more_tokens_and_rows_than_asked_for() -> None:
    inputs, targets = cut_windows(rows_from_lists([[2, 5, 6, 7, 3]] * 40), "sentence", steps=2, count=3)
    assert inputs.shape == (3, 2)
    assert targets.tolist() == [6, 6, 6]


def test_stored_sentences_of_ten_tokens_reach_nine_steps_back(toy_dataset: DatasetRecord) -> None:
    inputs, targets = stored_windows(toy_dataset, "valid", steps=61, count=64)
    assert inputs.shape == (10, 10)  # a quarter of 40 rows
    assert inputs[:, 0].unique().tolist() == [2]
    assert targets.unique().tolist() == [3]
