"""Rescore n-best lists by combining the scores of a speech recognizer with those of a language model."""

import math
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from rnnlm.corpora.printable_names import printable
from rnnlm.corpora.table_cells import NoColumnError
from rnnlm.errors import ConfigError, CorpusError
from rnnlm.extensions.scoring.batch_scorer import BatchScorer
from rnnlm.extensions.scoring.document_reader import table_rows
from rnnlm.extensions.scoring.input_files import readable_inputs, table
from rnnlm.storage.records import Record

HYPOTHESES_AT_ONCE = 4_096


class Hypothesis(NamedTuple):
    id: str  # The id of the n-best list to which the hypothesis belongs.
    text: str
    score: float  # The recognizer's score in nats. A higher score is better.


class RescoredText(Record):
    """The best hypothesis of an n-best list."""

    id: str
    text: str
    score: float  # The recognizer's score of the best hypothesis.
    log_probability: float  # The natural logarithm of the text's probability under the model.
    total: float  # The combined score, which is score + weight * log_probability.
    first: str  # The text that has the recognizer's highest score.


def rescore_lists(scorer: BatchScorer, path: Path, weight: float) -> list[RescoredText]:
    """Return the best hypothesis of each list, in the order of the file. In a tie, the first hypothesis is chosen."""
    if not math.isfinite(weight):
        raise ConfigError(f"--weight {weight}: expected a finite number")
    best: dict[str, RescoredText] = {}
    first: dict[str, Hypothesis] = {}
    hypotheses = read_hypotheses(path)
    while batch := list(islice(hypotheses, HYPOTHESES_AT_ONCE)):
        for found, log_probability in zip(batch, scorer.log_probabilities([one.text for one in batch]), strict=True):
            first[found.id] = max(first.get(found.id, found), found, key=attrgetter("score"))
            total = found.score + weight * log_probability
            if found.id not in best or total > best[found.id].total:
                best[found.id] = RescoredText(**found._asdict(), log_probability=log_probability, total=total, first="")
    return [one.model_copy(update={"first": first[id].text}) for id, one in best.items()]


def read_hypotheses(path: Path) -> Iterator[Hypothesis]:
    """Yield the rows of a table with the columns id, text and score.

    Raise CorpusError if a score is not a number.
    """
    for file in readable_inputs(str(path)).files:
        rows = table_rows(table(file, "hypothesis"), ["id", "text", "score"])
        try:
            for number, (id, text, score) in enumerate(rows, start=1):
                yield Hypothesis(id or "", text or "", finite(score, f"{file.label}: row {number}"))
        except NoColumnError as error:
            raise CorpusError(f"{error.problem};\nexpected the columns id, text and score") from None


def finite(score: str | None, where: str) -> float:
    """Return the score as a number. Raise CorpusError if it is not a finite number."""
    found = printable(score or "nothing")
    try:
        number = float(score or "")
    except ValueError:
        raise CorpusError(f"{where}: expected a number as score, found {found!r}") from None
    if not math.isfinite(number):
        raise CorpusError(f"{where}: expected a finite number as score, found {found!r}")
    return number
