"""The back-off model of the textbook in SQL equals an implementation in plain Python."""

import math
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, open_model
from rnnlm.evaluation.ngram.ngram_evaluation import next_distribution, score_ngram_split, unknown_rate
from rnnlm.evaluation.ngram.textbook_backoff import train_textbook
from rnnlm.storage.home import Home
from tests.rnnlm.evaluation.ngram.conftest import log_probabilities


def slow_scores(text: str, order: int) -> list[float]:
    """Return the score of each test word, computed as in the textbook."""
    words = re.findall(r"\b[a-zA-Z0-9]+\b|[.]", text.lower())
    cut = int(0.9 * len(words))
    train, test = words[:cut], words[cut:]
    counts = Counter(tuple(train[end - m : end]) for m in range(1, order + 1) for end in range(m, len(train) + 1))
    totals: Counter[tuple[str, ...]] = Counter()
    for gram, count in counts.items():
        totals[gram[:-1]] += count
    scores = []
    for at, word in enumerate(test):
        for m in range(order, 1, -1):
            context = tuple(test[at - m + 1 : at]) if at >= m - 1 else None
            if context is not None and counts[(*context, word)]:
                scores.append(counts[(*context, word)] / totals[context])
                break
        else:
            scores.append((counts[(word,)] + 1) / (len(train) + len(set(train))))
    return scores


def random_text(seed: int, sentences: int) -> str:
    draw = random.Random(seed)
    words = ["the", "cat", "saw", "a", "Dog", "near", "it's", "42", "tree-house", "café"]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return "\n".join(" ".join(draw.choices(words, weights, k=draw.randint(1, 9))) + "." for _ in range(sentences))


def trained(home: Home, path: Path, text: str, order: int) -> NgramRecord:
    path.write_text(text, encoding="utf-8")
    config = NgramConfig(method="textbook", order=order)
    return train_textbook(home, obtain_corpus(home, CorpusConfig(source=str(path))), config)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_every_score_is_the_one_of_the_book(home: Home, tmp_path: Path, order: int) -> None:
    text = random_text(order, 60)
    model = trained(home, tmp_path / "text.txt", text, order)
    got = list(map(math.exp, log_probabilities(model, None)))
    expected = slow_scores(text, order)
    assert got == pytest.approx(expected)
    score = score_ngram_split(model, None, "test")
    assert score.tokens == len(expected)
    assert score.perplexity == pytest.approx(math.exp(-sum(map(math.log, expected)) / len(expected)))


def test_unknown_rate_is_the_share_of_unseen_test_words(home: Home, tmp_path: Path) -> None:
    model = trained(home, tmp_path / "text.txt", "a b " * 18 + "a new b word", 3)
    assert unknown_rate(model) == 2 / 4


def test_textbook_scores_are_normalized_before_sampling(home: Home, tmp_path: Path) -> None:
    """The scores of the textbook's model are divided by their sum before a token is sampled.

    After `a` in `a b a b … c`, the scores are b 1, a (9 + 1) / 21 and c (1 + 1) / 21, where N = 18 and V = 3.
    """
    model = trained(home, tmp_path / "text.txt", "c a " + "b a " * 8 + "b a", 2)
    with open_model(model) as connection:
        # The ids of c, a and b are 1, 2 and 3.
        ids, words, probabilities = next_distribution(connection, "textbook", [2])
    assert words.tolist() == ["c", "a", "b"]
    scores = [2 / 21, 10 / 21, 8 / 8]
    assert probabilities.tolist() == pytest.approx([score / sum(scores) for score in scores])


def test_a_text_of_a_single_word_is_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"expected at least 2 words, one to count and one to test on, found 1"):
        trained(home, tmp_path / "text.txt", "alone\n", 2)
