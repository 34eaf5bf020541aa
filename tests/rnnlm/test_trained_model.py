"""The methods of the object that `rnnlm.load` returns work for the toy run, a word model with an n-gram model."""

import math
from typing import Any

import pandas as pd
import pytest

import rnnlm
from rnnlm.errors import ConfigError, TextError
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord


@pytest.fixture
def model(home: Home, toy_run: RunRecord) -> "rnnlm.Model":
    return rnnlm.load(toy_run.run_id)


def test_the_test_text_has_the_perplexity_of_the_evaluation(
    model: "rnnlm.Model", toy_corpus: CorpusRecord, toy_evaluation: EvaluationRecord
) -> None:
    text = (toy_corpus.folder / "test.txt").read_text()
    expected = toy_evaluation.scores["test"]
    assert model.perplexity(text) == pytest.approx(expected.perplexity, rel=1e-5)
    scores = model.score([text, *text.splitlines()])
    assert scores["bits_per_byte"][0] == pytest.approx(expected.bits_per_byte, rel=1e-5)
    assert scores["tokens"].tolist() == [400, *[10] * 40]  # Each of the 40 lines has nine words and <eos>.
    nats = (scores["tokens"] * scores["perplexity"].map(math.log))[1:].sum()
    # Separately scored lines have the same losses as in the split.
    assert nats / 400 == pytest.approx(expected.nll_nats_per_token, rel=1e-5)


def test_scores_are_rows_in_order_with_unknown_words(model: "rnnlm.Model") -> None:
    scores = model.score(["the cat", "the quokka", ""])
    assert list(scores.columns) == ["text", "bits_per_byte", "perplexity", "tokens", "unknown_rate"]
    assert scores["text"].tolist() == ["the cat", "the quokka", ""]
    assert scores["tokens"].tolist() == [3, 3, 0]
    assert scores["unknown_rate"].tolist()[:2] == [0, pytest.approx(1 / 3)]
    assert scores.iloc[2].isna().tolist() == [False, True, True, False, True]
    assert len(model.score([])) == 0
    assert model.score("the cat").equals(model.score(["the cat"]))
    assert model.score(pd.Series(["the cat"], index=[7])).equals(model.score(["the cat"]))


@pytest.mark.parametrize("texts", [b"the cat", 3, None, ["the cat", None], [float("nan")], [b"the cat"]])
def test_what_is_no_string_is_refused(model: "rnnlm.Model", texts: Any) -> None:
    with pytest.raises(TextError, match="expected a string"):
        model.score(texts)


def test_an_empty_text_has_no_perplexity(model: "rnnlm.Model") -> None:
    for text in ("", "\n", " "):
        with pytest.raises(TextError, match="nothing to predict in this text"):
            model.perplexity(text)
    assert model.explain("").empty
    assert model.tokens("") == []


def test_the_same_seed_gives_the_same_texts(model: "rnnlm.Model") -> None:
    texts = model.generate("the cat", n=3, seed=1, maximum_tokens=4)
    assert len(texts) == 3
    assert all(text.startswith("the cat ") for text in texts)
    # The seed of each text is one higher than that of the previous text.
    assert model.generate("the cat", n=2, seed=2, maximum_tokens=4) == texts[1:]
    (greedy,) = model.generate("the cat", temperature=0)
    assert model.generate("the cat", temperature=0, seed=9) == [greedy]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temprature": 1}, "generate has no setting 'temprature'; did you mean temperature?"),
        ({"prompts": ["a"]}, "generate has no setting 'prompts'"),
        ({"temperature": -1}, "temperature: expected at least 0"),
        ({"n": 0}, "n: expected a whole number of texts, at least 1; got 0"),
        ({"n": 1.5}, "n: expected a whole number"),
        ({"seed": "x"}, "seed: expected a whole number"),
    ],
)
def test_a_wrong_sampling_setting_is_refused(model: "rnnlm.Model", settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model.generate("the cat", **settings)


def test_the_steps_of_an_explanation_add_up_to_the_loss(model: "rnnlm.Model") -> None:
    steps = model.explain("the cat sees")
    assert steps["target_text"].tolist() == ["the", "cat", "sees", "<eos>"] == model.tokens("the cat sees")
    assert math.exp(steps["nll_nats"].mean()) == pytest.approx(model.perplexity("the cat sees"), rel=1e-5)
    assert model.tokens("the quokka\r\nsees") == ["the", "<unk>", "<eos>", "sees", "<eos>"]


def test_it_shows_what_it_is_in_a_line_and_in_a_table(model: "rnnlm.Model", toy_run: RunRecord) -> None:
    line = repr(model)
    assert line.startswith(f"<rnnlm.Model {toy_run.run_id}: Elman network, 1 × 16, mixed with 5-gram counts, test ")
    assert len(line) < 120
    table = model._repr_html_()
    assert "<td>word, 17 tokens</td>" in table
    model.facts["model"] = "<script>"
    assert "&lt;script&gt;" in model._repr_html_()
