"""Test whether a model gives the good sentence of a pair a higher probability than the bad one.

The method was introduced by Linzen, Dupoux and Goldberg (2016). The files of BLiMP (Warstadt and others 2020) can be
read directly.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from rnnlm.corpora.table_cells import NoColumnError
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.batch_scorer import BatchScorer
from rnnlm.extensions.scoring.document_reader import table_rows
from rnnlm.extensions.scoring.input_files import InputFile, readable_inputs, table
from rnnlm.storage.records import Record

PAIRS_AT_ONCE = 2_048
# The columns that name the group of a pair in BLiMP. The first of these columns that a file has is used. If a file has
# none of them, its name is the group.
GROUP_COLUMNS = ("UID", "field", "linguistics_term")
NORMAL_95 = 1.959964  # The 0.975 quantile of the normal distribution.


class SentencePair(NamedTuple):
    group: str
    good: str
    bad: str


class PairAccuracy(Record):
    """The accuracy on one group of pairs, or on all pairs."""

    group: str
    pairs: int
    right: int  # The number of pairs whose good sentence is more probable. A tie counts as an error.
    accuracy: float
    low: float  # The lower bound of the 95 % confidence interval (Wilson 1927).
    high: float
    shorter_right: int  # The number of pairs whose good sentence has fewer bytes, as a baseline for `right`.


class PairScores(Record):
    model: str
    total: PairAccuracy
    groups: tuple[PairAccuracy, ...]  # The results of the groups, sorted by name.


def score_pairs(scorer: BatchScorer, source: str, good: str, bad: str, group: str | None) -> PairScores:
    """Return the accuracy of each group of pairs and of all pairs.

    `good` and `bad` are the columns of the two sentences. Raise CorpusError if a file lacks them.
    """
    counts: dict[
        str, list[int]
        # For each group: the number of pairs, of correctly ranked pairs, and of pairs whose good sentence is shorter.
    ] = {}
    pairs = (pair for file in readable_inputs(source).files for pair in read_pairs(file, good, bad, group))
    while batch := list(islice(pairs, PAIRS_AT_ONCE)):
        scores = scorer.log_probabilities([text for pair in batch for text in (pair.good, pair.bad)])
        for pair, good_score, bad_score in zip(batch, scores[::2], scores[1::2], strict=True):
            shorter = len(pair.good.encode()) < len(pair.bad.encode())
            for index, value in enumerate((1, good_score > bad_score, shorter)):
                counts.setdefault(pair.group, [0, 0, 0])[index] += value
    if not counts:
        raise CorpusError(f"{source}: contains no pairs; give a table with one pair of sentences per row")
    groups = tuple(pair_accuracy(name, *numbers) for name, numbers in sorted(counts.items()))
    total = pair_accuracy("all", *map(sum, zip(*counts.values(), strict=True)))
    return PairScores(model=scorer.model.reference, total=total, groups=groups)


def read_pairs(file: InputFile, good: str, bad: str, group: str | None) -> Iterator[SentencePair]:
    """Yield the pairs of a table. If `group` is None, the first of GROUP_COLUMNS in the table names the group."""
    column = group or first_column(table(file, "pair"), GROUP_COLUMNS)
    try:
        for number, (good_text, bad_text, *name) in enumerate(table_rows(file, [good, bad, *filter(None, [column])])):
            if not good_text or not bad_text:
                raise CorpusError(f"{file.label}: pair {number + 1} lacks a sentence")
            yield SentencePair((name[0] if name else None) or file.path.name.partition(".")[0], good_text, bad_text)
    except NoColumnError as error:
        raise CorpusError(f"{error.problem};\ngive the columns as --good, --bad and --group") from None


def first_column(file: InputFile, columns: tuple[str, ...]) -> str | None:
    """Return the first of the given columns that the table has, or None."""
    for column in columns:
        try:
            next(table_rows(file, [column]), None)
        except NoColumnError:
            continue
        return column
    return None


def pair_accuracy(group: str, pairs: int, right: int, shorter_right: int) -> PairAccuracy:
    low, high = wilson_interval(right, pairs)
    return PairAccuracy(
        group=group,
        pairs=pairs,
        right=right,
        accuracy=right / pairs,
        low=low,
        high=high,
        shorter_right=shorter_right,
    )


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (Wilson 1927).

    Unlike the interval from the normal approximation, it is accurate for proportions near 0 and 1.
    """
    share, spread = successes / trials, NORMAL_95**2 / trials
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    return centre - half, centre + half
