"""N-best lists in the format of Kaldi's tools, with costs and one hypothesis per line, can be rescored."""

import json
from pathlib import Path

import pytest

from rnnlm.errors import ConfigError, CorpusError
from rnnlm.extensions.scoring.batch_scorer import BatchScorer, batch_scorer
from rnnlm.extensions.scoring.nbest import rescore_lists
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

GOOD, BAD = "the cat sees the dog near the river .", "cat the sees the dog the near river ."


@pytest.fixture
def scorer(home: Home, toy_run: RunRecord) -> BatchScorer:
    return batch_scorer(toy_run.run_id)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Write the n-best lists of two utterances like the `words` and `ac_cost` files of Kaldi's nbest-to-linear.

    The recognizer prefers the worse hypothesis of the first utterance.
    """
    words = {"utt1-1": BAD, "utt1-2": GOOD, "utt2-1": GOOD, "utt2-2": BAD}
    costs = {"utt1-1": 10.0, "utt1-2": 12.0, "utt2-1": 7.5, "utt2-2": 9.0}
    rows = [
        {"id": name.rpartition("-")[0], "text": text, "score": -costs[name], "extra": 1} for name, text in words.items()
    ]
    path = tmp_path / "nbest.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_model_overrules_the_recognizer_by_its_weight(scorer: BatchScorer, lists: Path) -> None:
    good, bad = scorer.log_probabilities([GOOD, BAD])
    assert good - bad > 2
    alone = rescore_lists(scorer, lists, weight=0.0)
    assert [(one.id, one.text, one.total) for one in alone] == [("utt1", BAD, -10.0), ("utt2", GOOD, -7.5)]
    tipped = 2.0 / (good - bad)  # With this weight, both hypotheses of utt1 have the same total.
    assert rescore_lists(scorer, lists, weight=0.99 * tipped)[0].text == BAD
    first, second = rescore_lists(scorer, lists, weight=1.01 * tipped)
    assert (first.text, first.first, second.text) == (GOOD, BAD, GOOD)
    assert first.total == pytest.approx(-12.0 + 1.01 * tipped * good)


def test_a_hypothesis_without_a_number_is_refused_by_its_row(scorer: BatchScorer, tmp_path: Path) -> None:
    path = tmp_path / "nbest.csv"
    path.write_text("id,text,score\na,b,-1.5\na,c,high\n")
    with pytest.raises(CorpusError, match="row 2: expected a number as score, found 'high'"):
        rescore_lists(scorer, path, weight=1.0)
    path.write_text("id,text\na,b\n")
    with pytest.raises(CorpusError, match="expected the columns id, text and score"):
        rescore_lists(scorer, path, weight=1.0)


@pytest.mark.parametrize("score", ["nan", "inf", "-Infinity", "1e400", "9" * 400])
def test_a_score_that_is_no_number_to_rank_by_is_refused(scorer: BatchScorer, tmp_path: Path, score: str) -> None:
    (tmp_path / "nbest.csv").write_text(f"id,text,score\na,b,-1.5\na,c,{score}\n")
    with pytest.raises(CorpusError, match="row 2: expected a finite number as score"):
        rescore_lists(scorer, tmp_path / "nbest.csv", weight=0.5)
    with pytest.raises(ConfigError, match="--weight nan"):
        rescore_lists(scorer, tmp_path / "nbest.csv", weight=float("nan"))
