"""An interpolated Kneser-Ney n-gram model stored in arrays.

The counts and the formula are the same as in rnnlm/evaluation/ngram/kneser_ney.py:

    p_k(w | context) = max(c(context, w) - D(c), 0) / total(context) + gamma(context) p_{k-1}(w | shorter context)

The contexts form a tree. The children of the empty context consist of one token, which is the last one before w. The
children of any other context have one more token on the left. The children of a context are adjacent in the arrays,
ordered by this token. The words that follow a context are stored in the same way. Therefore, pairs of a context and a
token are in ascending order if each pair is encoded as a number, and can be found by binary search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# The file of the n-gram model in the model's folder. It is missing if the model has no n-gram model.
FILE = "counts.safetensors"
# The largest value of the setting model.counts, which is the number of tokens in the longest n-grams.
LONGEST_NGRAM = 5


@dataclass(frozen=True)
class Level:
    """All contexts of one length in the order of the tree, and the words that follow them.

    In the following shapes, C is the number of contexts and N the number of n-grams.
    """

    tokens: np.ndarray  # (C,): the leftmost token of each context, or 0 for the empty context.
    # (C + 1,): the index of the first child of each context. The array is empty at the last level.
    first_child: np.ndarray
    first_word: np.ndarray  # (C + 1,): the index of the first word of each context.
    words: np.ndarray  # (N,): the last token of each n-gram.
    counts: np.ndarray  # (N,): the count of each n-gram.


class CountModel:
    """An interpolated Kneser-Ney n-gram model in arrays.

    Args:
        levels: One Level for each length of the context, from 0 on.
        discounts: The discounts of the counts 1, 2, and 3 or more for each level, (levels, 3).
        vocabulary_size: The number of token ids.
        predictable: The ids of the tokens that have a probability, (P,).
    """

    def __init__(
        self, levels: list[Level], discounts: np.ndarray, vocabulary_size: int, predictable: np.ndarray
    ) -> None:
        self.levels = levels
        self.discounts = discounts
        self.vocabulary_size = vocabulary_size
        self.predictable = predictable
        self.child_keys = [
            keys_of(level.first_child, below.tokens, vocabulary_size) for level, below in pairwise(levels)
        ]
        self.word_keys = [keys_of(level.first_word, level.words, vocabulary_size) for level in levels]
        self.totals, self.gammas = zip(*map(self.sums, range(len(levels))), strict=True)
        uniform = np.zeros(vocabulary_size)
        uniform[predictable] = 1 / len(predictable)
        self.unigram = self.gammas[0][0] * uniform  # The probability of each token without a context, (V,).
        self.unigram[levels[0].words] += self.discounted(0, slice(None)) / self.totals[0][0]

    @property
    def order(self) -> int:
        """The number of tokens in the longest n-gram."""
        return len(self.levels)

    @property
    def stored_counts(self) -> int:
        """The number of stored n-grams of all orders. It corresponds to the number of parameters of a network."""
        return sum(len(level.counts) for level in self.levels)

    def children(self, length: int, nodes: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the child of each context for a token on its left, and whether this child exists.

        Args:
            length: The number of tokens in each context.
            nodes: The indices of the contexts.
            tokens: The token on the left of each context.
        """
        return find(self.child_keys[length], nodes * self.vocabulary_size + tokens)

    def sums(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the total and gamma of each context of the given length, both of shape (C,).

        The total is the sum of a context's counts. gamma is the fraction of the total that is subtracted by the
        discounts.
        """
        level = self.levels[length]
        starts = level.first_word[:-1].astype(np.int64)
        counts = level.counts.astype(np.int64)
        totals = np.add.reduceat(counts, starts)
        taken = np.add.reduceat(self.discounts[length][np.minimum(counts, 3) - 1], starts)
        return totals, taken / totals

    def discounted(self, length: int, places: "np.ndarray | slice") -> np.ndarray:
        """Return the counts of n-grams minus their discounts."""
        counts = self.levels[length].counts[places].astype(np.int64)
        difference: np.ndarray = counts - self.discounts[length][np.minimum(counts, 3) - 1]
        return difference

    def log_probabilities(self, contexts: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probability of each word, and the length of its longest context in the training text.

        The results are natural logarithms, (tokens,) float64, and lengths, (tokens,).

        Args:
            contexts: The tokens before each word, (tokens, order - 1). The last one is first; missing ones are 0.
            words: The ids of the words, (tokens,).
        """
        # The contexts are searched in the order of the tree, which is three times as fast as a random order: each
        # binary search ends close to the previous one, so the memory that it reads is cached.
        order = np.argsort(self.packed(contexts))
        words = words[order]
        probabilities = self.unigram[words]
        lengths = np.zeros(len(words), np.uint8)
        rows = np.arange(len(words))  # The rows whose context of the current length was counted.
        nodes = np.zeros(len(words), np.int64)
        for length in range(1, self.order):
            nodes, found = self.children(length - 1, nodes, contexts[order[rows], length - 1])
            rows, nodes = rows[found], nodes[found]
            lengths[rows] = length
            places, seen = find(self.word_keys[length], nodes * self.vocabulary_size + words[rows])
            extra = np.zeros(len(rows))
            extra[seen] = self.discounted(length, places[seen]) / self.totals[length][nodes[seen]]
            probabilities[rows] = extra + self.gammas[length][nodes] * probabilities[rows]
        log_probabilities, known_lengths = np.empty_like(probabilities), np.empty_like(lengths)
        log_probabilities[order], known_lengths[order] = np.log(probabilities), lengths
        return log_probabilities, known_lengths

    def packed(self, contexts: np.ndarray) -> np.ndarray:
        """Return an int64 number for each context. The numbers are in the same order as the contexts in the tree.

        The number encodes as many tokens of the context as fit into 63 bits.
        """
        bits = self.vocabulary_size.bit_length()
        packed = np.zeros(len(contexts), np.int64)
        for tokens in contexts.T[: 63 // bits]:
            packed = packed << bits | tokens
        return packed

    def distribution(self, context: Sequence[int]) -> tuple[np.ndarray, int]:
        """Return the probability of each next token, (V,) float64, and the length of the longest counted context.

        Tokens that are never predicted have the probability 0. `context` contains the tokens before the predicted one,
        the last one first. It may be shorter, or end with 0, if there are fewer tokens.
        """
        probabilities, node, known = self.unigram.copy(), np.zeros(1, np.int64), 0
        for length, token in enumerate(context[: self.order - 1], start=1):
            node, found = self.children(length - 1, node, np.asarray([token]))
            if not found[0]:
                break
            level = self.levels[length]
            here = slice(int(level.first_word[node[0]]), int(level.first_word[node[0] + 1]))
            probabilities *= self.gammas[length][node[0]]
            probabilities[level.words[here]] += self.discounted(length, here) / self.totals[length][node[0]]
            known = length
        return probabilities, known

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays from which count_model_of() creates the model again."""
        arrays = {"discounts": self.discounts, "predictable": self.predictable}
        for length, level in enumerate(self.levels):
            arrays |= {f"{length}.{name}": value for name, value in vars(level).items()}
        return arrays


def count_model_of(arrays: Mapping[str, np.ndarray], vocabulary_size: int) -> CountModel:
    """Return the model whose `arrays` method returned these arrays.

    Raise KeyError or ValueError if they are damaged.
    """
    discounts, predictable = arrays["discounts"], arrays["predictable"]
    if discounts.ndim != 2 or discounts.shape[1] != 3 or not 1 <= len(discounts) <= LONGEST_NGRAM:
        raise ValueError(
            f"{FILE}: expected discounts of 1 to {LONGEST_NGRAM} orders, found the shape {discounts.shape}"
        )
    if not ((discounts > 0) & (discounts <= np.arange(1, 4))).all():
        raise ValueError(f"{FILE}: a discount is not between 0 and the count from which it is subtracted")
    names = ("tokens", "first_child", "first_word", "words", "counts")
    levels = [Level(**{name: arrays[f"{length}.{name}"] for name in names}) for length in range(len(discounts))]
    for name, array in [("predictable", predictable), *(pair for level in levels for pair in vars(level).items())]:
        if array.ndim != 1 or array.dtype.kind != "u":
            raise ValueError(f"{FILE}: {name}: expected a row of unsigned numbers, found {array.dtype}{array.shape}")
    check_levels(levels, vocabulary_size)
    if not len(predictable) or not is_ascending(predictable) or predictable[-1] >= vocabulary_size:
        raise ValueError(f"{FILE}: expected the predictable tokens in ascending order, each in the vocabulary")
    return CountModel(levels, discounts, vocabulary_size, predictable)


def check_levels(levels: list[Level], vocabulary_size: int) -> None:
    """Raise ValueError if an index is out of bounds, or if values are not in the order that binary search needs."""
    if len(levels[0].tokens) != 1:
        raise ValueError(f"{FILE}: expected one empty context, found {len(levels[0].tokens)}")
    for level, below in zip(levels, [*levels[1:], None], strict=True):
        for first, values in ((level.first_word, level.words), (level.first_child, below.tokens if below else ())):
            ordered = (np.diff(first.astype(np.int64)) >= 0).all()
            if len(first) != len(level.tokens) + 1 or first[0] or first[-1] != len(values) or not ordered:
                raise ValueError(f"{FILE}: the lengths of its arrays are inconsistent")
        if (np.diff(level.first_word.astype(np.int64)) < 1).any() or len(level.words) != len(level.counts):
            # A context without words is refused, because np.add.reduceat in sums() gives a wrong sum for an empty
            # range.
            raise ValueError(f"{FILE}: a context has no words")
        if max(level.words.max(), level.tokens.max()) >= vocabulary_size or level.counts.min() < 1:
            raise ValueError(f"{FILE}: the counts do not fit the vocabulary")
        searched = [keys_of(level.first_word, level.words, vocabulary_size)]
        if below is not None:
            searched.append(keys_of(level.first_child, below.tokens, vocabulary_size))
        if not all(map(is_ascending, searched)):
            raise ValueError(f"{FILE}: the n-grams are not in ascending order")


def is_ascending(values: np.ndarray) -> bool:
    """Return True if each value is larger than the previous one."""
    return bool((values[1:] > values[:-1]).all())


def keys_of(first: np.ndarray, tokens: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Return one int64 number for each pair of a context and a token, (tokens,), in ascending order.

    The tokens of context c are tokens[first[c]:first[c + 1]].
    """
    places = first.astype(np.int64)
    sizes = places[1:] - places[:-1]
    keys: np.ndarray = np.repeat(np.arange(len(sizes)), sizes) * vocabulary_size + tokens
    return keys


def find(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each wanted key, and whether it exists in `keys`. `keys` is ascending and not empty."""
    places = np.searchsorted(keys, wanted)
    return places, keys[np.minimum(places, len(keys) - 1)] == wanted
