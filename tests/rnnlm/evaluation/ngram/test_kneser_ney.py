"""Modified Kneser-Ney smoothing in SQL gives a distribution that equals values computed by hand and in Python."""

import logging
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from rnnlm.errors import ConfigError, DatasetError
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, open_model
from rnnlm.evaluation.ngram.ngram_evaluation import next_distribution, score_ngram_split
from rnnlm.storage.home import Home
from tests.rnnlm.evaluation.ngram.conftest import Rows, WriteDataset, log_probabilities

PAD, UNK, BOS, EOS = range(4)
PREDICTABLE = 20 - 2  # The vocabulary has 20 tokens, of which <pad> and <bos> are never predicted.


def distribution(model: NgramRecord, context: Sequence[int]) -> dict[int, float]:
    with open_model(model) as connection:
        ids, _, probabilities = next_distribution(connection, model.config.method, context)
    return dict(zip(ids.tolist(), probabilities.tolist(), strict=True))


class SlowKneserNey:
    """A slow implementation of Kneser-Ney, which computes one n-gram at a time."""

    def __init__(self, rows: Rows, order: int, predictable: int) -> None:
        self.order, self.predictable = order, predictable
        occurrences: Counter[tuple[int, ...]] = Counter()
        left: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for row in rows:
            for end in range(1, len(row)):
                for start in range(max(0, end - order + 1), end + 1):
                    gram = tuple(row[start : end + 1])
                    occurrences[gram] += 1
                    left[gram].add(row[start - 1] if start else -1)  # The value -1 represents the beginning of the row.
        self.counts = {
            gram: count if len(gram) == order or gram[0] == BOS else len(left[gram])
            for gram, count in occurrences.items()
        }
        self.continued: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for gram, count in self.counts.items():
            self.continued[gram[:-1]].append(count)
        self.discounts = {length: self.estimate(length) for length in range(1, order + 1)}

    def estimate(self, length: int) -> list[float]:
        tally = Counter(count for gram, count in self.counts.items() if len(gram) == length)
        n1, n2, n3, n4 = (tally[count] for count in (1, 2, 3, 4))
        fixed = [0.0, 0.5, 1.0, 1.5]
        if not (n1 and n2 and n3 and n4):
            return fixed
        y = n1 / (n1 + 2 * n2)
        found = [0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        return found if all(0 < found[k] <= k for k in (1, 2, 3)) else fixed

    def probability(self, word: int, context: tuple[int, ...]) -> float:
        if len(context) >= self.order:
            context = context[len(context) - self.order + 1 :]
        lower = self.probability(word, context[1:]) if context else 1 / self.predictable
        counts = self.continued[context]
        if not counts:
            return lower
        discount = self.discounts[len(context) + 1]
        count = self.counts.get((*context, word), 0)
        gamma = sum(discount[min(other, 3)] for other in counts) / sum(counts)
        return (count - discount[min(count, 3)]) / sum(counts) + gamma * lower


def random_rows(draw: random.Random, count: int) -> Rows:
    """Return sentences of a few frequent words. Some rows are continuations, which do not begin with <bos>."""
    words, weights = list(range(4, 20)), [1 / (rank + 1) ** 1.5 for rank in range(16)]
    rows = []
    for _ in range(count):
        row = [BOS, *draw.choices(words, weights, k=draw.randint(0, 9)), EOS]
        cut = draw.randrange(len(row) - 1) if draw.random() < 0.3 else 0
        rows.append(row[cut:])
    return rows


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.long
def test_every_probability_is_the_one_of_the_formulas(
    home: Home, write_dataset: WriteDataset, order: int, seed: int
) -> None:
    draw = random.Random(seed)
    train, test = random_rows(draw, 150 if seed else 8), random_rows(draw, 40)
    dataset = write_dataset(20, train=train, test=test)
    config = NgramConfig(order=order)
    model = train_kneser_ney(home, dataset, config)
    slow = SlowKneserNey(train, order, PREDICTABLE)

    expected = [
        math.log(slow.probability(row[place], tuple(row[:place]))) for row in test for place in range(1, len(row))
    ]
    got = log_probabilities(model, dataset)
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    score = score_ngram_split(model, dataset, "test")
    assert score.tokens == len(expected)
    assert score.perplexity == pytest.approx(math.exp(-sum(got) / len(got)))


@pytest.mark.long
@pytest.mark.parametrize("order", [1, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_probabilities_sum_to_one_after_seen_half_seen_and_unseen_contexts(
    home: Home, write_dataset: WriteDataset, order: int
) -> None:
    draw = random.Random(7)
    train = random_rows(draw, 120)
    dataset = write_dataset(20, train=[row for row in train if 19 not in row])
    model = train_kneser_ney(home, dataset, NgramConfig(order=order))
    seen = [row[: draw.randint(1, len(row) - 1)] for row in train[:10]]
    contexts = [[], [BOS], *seen, *([19, *row] for row in seen[:5]), [19], [4, 19], [19, 19, 19, 19]]
    contexts += [draw.choices(range(3, 20), k=4) for _ in range(10)]
    for context in contexts:
        found = distribution(model, context)
        assert sum(found.values()) == pytest.approx(1, abs=1e-6), context
        assert min(found.values()) > 0
        # Only <pad> and <bos> are missing. <bos> occurs only in contexts.
        assert set(found) == set(range(20)) - {PAD, BOS}


def test_two_orders_with_fixed_discounts_equal_those_by_hand(home: Home, write_dataset: WriteDataset) -> None:
    """The probabilities of order 2 with fixed discounts equal those computed by hand.

    The sentences are `a`, `a` and `b`. Two words occur to the left of <eos>, and one to the left of `a` and of `b`.

    Order 1 has the total 4 and gamma (1 + 1/2 + 1/2) / 4 = 1/2, distributed over 4 words. The context <bos> has the
    total 3 and gamma (1 + 1/2) / 3 = 1/2.
    """
    dataset = write_dataset(6, train=[[BOS, 4, EOS], [BOS, 4, EOS], [BOS, 5, EOS]])
    model = train_kneser_ney(home, dataset, NgramConfig(order=2))
    assert distribution(model, []) == pytest.approx({1: 0.125, 3: 0.375, 4: 0.25, 5: 0.25})
    assert distribution(model, [BOS]) == pytest.approx({1: 0.0625, 3: 0.1875, 4: 1 / 3 + 0.125, 5: 0.5 / 3 + 0.125})


def test_discounts_that_cannot_be_estimated_give_a_warning(
    home: Home, write_dataset: WriteDataset, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = write_dataset(6, train=[[BOS, 4, EOS]])
    with caplog.at_level(logging.WARNING):
        train_kneser_ney(home, dataset, NgramConfig(order=2))
    assert [record.getMessage() for record in caplog.records] == [
        "the discounts of n-grams of order 1, 2 cannot be estimated from this text, so they are 0.5, 1 and 1.5"
    ]


def test_a_model_is_made_once_and_leaves_nothing_beside_it(home: Home, write_dataset: WriteDataset) -> None:
    dataset = write_dataset(20, train=random_rows(random.Random(1), 50))
    config = NgramConfig(order=3)
    first = train_kneser_ney(home, dataset, config)
    again = train_kneser_ney(home, dataset, config)
    assert (first.skipped, again.skipped) == (False, True)
    # The second call returns the stored model with the number of seconds that its training took.
    assert first.seconds == again.seconds > 0
    assert sorted(path.name for path in first.folder.iterdir()) == [
        "COMPLETE",
        "ngram-kneser-ney-3.duckdb",
        "ngram.json",
    ]
    assert train_kneser_ney(home, dataset, NgramConfig(order=2)).folder != first.folder


def test_the_next_training_clears_what_a_killed_one_left(home: Home, write_dataset: WriteDataset) -> None:
    good = write_dataset(20, train=random_rows(random.Random(1), 50))
    config = NgramConfig(order=2)
    broken = good.model_copy(update={"folder": good.folder / "absent"})
    with pytest.raises(DatasetError, match="missing"):
        train_kneser_ney(home, broken, config)
    assert list(home.ngrams.iterdir()) == []

    model = train_kneser_ney(home, good, config)
    # Simulate the folder of a run that was killed while it counted n-grams.
    leftover = home.ngrams / f".{model.folder.name}.killed"
    (leftover / "spill").mkdir(parents=True)
    (model.folder / "COMPLETE").unlink()
    train_kneser_ney(home, good, config)
    assert [path.name for path in home.ngrams.iterdir()] == [model.folder.name]


@pytest.mark.slow
def test_too_little_memory_is_a_configuration_error(home: Home, write_dataset: WriteDataset) -> None:
    dataset = write_dataset(20, train=random_rows(random.Random(1), 2000))
    with pytest.raises(ConfigError, match=r"ngram.memory_limit: 1MB"):
        train_kneser_ney(home, dataset, NgramConfig(order=5, memory_limit="1MB"))
    assert list(home.ngrams.iterdir()) == []
