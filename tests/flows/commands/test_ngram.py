"""The JSON output of `rnnlm ngram`."""

import json
from pathlib import Path

import pytest

from flows.command_line import main

KEYS = {
    "method",
    "order",
    "normalised",
    "test_perplexity",
    "validation_perplexity",
    "tokens",
    "unknown_rate",
    "seconds",
    "samples",
}


pytestmark = pytest.mark.usefixtures("home")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["ngram", *arguments, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert isinstance(value, dict)
    return value


@pytest.mark.long
def test_kneser_ney_answers_with_perplexities(capsys: pytest.CaptureFixture[str], toy_folder: Path) -> None:
    found = answer(capsys, "--corpus", str(toy_folder), "--order", "3", "--samples", "2", "--seed", "1")
    assert set(found) == KEYS
    assert (found["method"], found["order"], found["normalised"], found["tokens"]) == ("kneser-ney", 3, True, 40 * 10)
    assert found["unknown_rate"] == 0
    assert found["seconds"] > 0
    # The perplexity of the grammar itself is (4 · 3 · 4 · 3)^(1/10) = 1.64. The perplexity of a trigram
    # model is slightly higher, because such a model cannot represent all dependencies of the grammar.
    assert 1.6 < found["test_perplexity"] < 2.1
    assert 1.6 < found["validation_perplexity"] < 2.1
    samples = found["samples"]
    assert isinstance(samples, list)
    assert [set(sample) for sample in samples] == [{"prompt", "text", "tokens", "whole", "seed"}] * 2
    again = answer(capsys, "--corpus", str(toy_folder), "--order", "3", "--samples", "2", "--seed", "1")
    assert again["samples"] == samples
    assert again["test_perplexity"] == pytest.approx(found["test_perplexity"])


@pytest.mark.long
def test_the_textbooks_figure_is_marked_as_no_perplexity(capsys: pytest.CaptureFixture[str], toy_folder: Path) -> None:
    arguments = ["--corpus", str(toy_folder), "--method", "textbook", "--order", "4"]
    found = answer(capsys, *arguments)
    assert set(found) == KEYS
    assert found["validation_perplexity"] is None
    assert found["normalised"] is False
    # The text has 380 sentences of nine words, 3420 words in total. The first int(0.9 · 3420) = 3078 of them are the
    # training text.
    assert found["tokens"] == 3420 - 3078
    assert main(["ngram", *arguments, "--samples", "1"]) == 0
    out = capsys.readouterr().out
    assert "this is not a normalised distribution, so it is not comparable with perplexities" in out
    assert "perplexity" not in out
