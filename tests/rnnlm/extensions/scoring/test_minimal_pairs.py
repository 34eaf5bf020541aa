"""The accuracy on minimal pairs agrees with a count by hand on pairs of the toy grammar."""

import json
from pathlib import Path

import pytest

from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.batch_scorer import BatchScorer, batch_scorer
from rnnlm.extensions.scoring.minimal_pairs import PairScores, score_pairs
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

GOOD, BAD = "the cat sees the dog near the river .", "cat the sees the dog the near river ."


@pytest.fixture
def scorer(home: Home, toy_run: RunRecord) -> BatchScorer:
    return batch_scorer(toy_run.run_id)


def blimp_file(folder: Path, uid: str, pairs: list[tuple[str, str]], **columns: str) -> Path:
    """Write a file in BLiMP's format, and return the file's path."""
    path = folder / f"{uid}.jsonl"
    rows = ({"sentence_good": good, "sentence_bad": bad, "UID": uid, "pairID": "0"} | columns for good, bad in pairs)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def score(scorer: BatchScorer, source: Path, group: str | None = None) -> PairScores:
    return score_pairs(scorer, str(source), "sentence_good", "sentence_bad", group)


def test_a_folder_of_blimp_is_scored_by_its_uids(scorer: BatchScorer, tmp_path: Path) -> None:
    blimp_file(tmp_path, "order", [(GOOD, BAD), (BAD, GOOD), (GOOD, BAD), (GOOD, f"{GOOD} {GOOD}")])
    blimp_file(tmp_path, "tie", [(GOOD, GOOD)])
    found = score(scorer, tmp_path)
    assert [(one.group, one.pairs, one.right, one.shorter_right) for one in found.groups] == [
        ("order", 4, 3, 1),
        ("tie", 1, 0, 0),
    ]
    assert (found.total.pairs, found.total.right, found.total.accuracy) == (5, 3, 0.6)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "x\n", "expected a table"),
        ("a.csv", "good,bad\nx,y\n", "--good"),
        ("a.csv", "sentence_good,sentence_bad\nx,\n", "pair 1 lacks a sentence"),
        ("a.csv", "sentence_good,sentence_bad\n", "contains no pairs"),
    ],
)
def test_a_file_without_pairs_is_refused(
    scorer: BatchScorer, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CorpusError, match=message):
        score(scorer, tmp_path / name)
