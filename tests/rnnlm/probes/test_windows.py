"""Windows are stretches of the stored text, each with the token that comes next."""

import torch

from rnnlm.probes.windows import cut_windows, stored_windows
from rnnlm.records import DatasetRecord
from rnnlm.sequences.cutting import StreamCutter, joined, rows_of


def test_windows_of_a_stream_are_spread_over_it_and_end_with_its_end() -> None:
    cutter = StreamCutter(4)
    blocks = cutter.add(torch.arange(10, 31).numpy())  # the stream is <bos> = 2, then 10 … 30
    source = joined([blocks, cutter.finish()])
    inputs, targets = cut_windows(source, "stream", steps=5, count=3)
    assert inputs.tolist() == [[2, 10, 11, 12, 13], [17, 18, 19, 20, 21], [25, 26, 27, 28, 29]]
    assert targets.tolist() == [14, 22, 30]


def test_a_short_stream_gives_one_short_window() -> None:
    inputs, targets = cut_windows(rows_of([[2, 7, 8]]), "stream", steps=5, count=3)
    assert (inputs.tolist(), targets.tolist()) == ([[2, 7]], [8])


def test_of_sentences_the_longest_quarter_is_cut_to_one_length() -> None:
    sentences = [[2, 3], [2, 5, 6, 7, 3], [2, 4, 3], [2, 8, 9, 3], [2, 3], [2, 3], [2, 3], [2, 3]]
    inputs, targets = cut_windows(rows_of(sentences), "sentence", steps=60, count=64)
    assert inputs.tolist() == [[2, 5, 6], [2, 8, 9]]
    assert targets.tolist() == [7, 3]


def test_no_more_tokens_and_rows_than_asked_for() -> None:
    inputs, targets = cut_windows(rows_of([[2, 5, 6, 7, 3]] * 40), "sentence", steps=2, count=3)
    assert inputs.shape == (3, 2)
    assert targets.tolist() == [6, 6, 6]


def test_stored_sentences_of_ten_tokens_reach_nine_steps_back(toy_dataset: DatasetRecord) -> None:
    inputs, targets = stored_windows(toy_dataset, "valid", steps=61, count=64)
    assert inputs.shape == (10, 10)  # a quarter of 40 rows
    assert inputs[:, 0].unique().tolist() == [2]
    assert targets.unique().tolist() == [3]
