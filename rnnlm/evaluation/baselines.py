"""Baselines of a split and its raw size, computed in SQL on the tokens that a model predicts."""

from dataclasses import dataclass

import numpy as np

from rnnlm.metrics import Score, perplexity
from rnnlm.sequences.dataset_reader import connect, training_counts
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.tokenizers.text_tokenizer import BOS, PAD


@dataclass(frozen=True)
class Baselines:
    uniform_perplexity: float  # the number of predictable tokens
    unigram_perplexity: float


@dataclass(frozen=True)
class SplitFacts:
    byte_count: int  # utf-8 bytes of the raw split, line ends included
    predicted_tokens: int
    unknown_tokens: int  # words that the vocabulary cannot spell
    restoration_bits: float  # what restores the text from its tokens: see TextTokenizer.restoration_bits

    def score(self, summed_nll_nats: float) -> Score:
        return Score(
            summed_nll_nats=summed_nll_nats,
            tokens=self.predicted_tokens,
            byte_count=self.byte_count,
            unknown_tokens=self.unknown_tokens,
            restoration_bits=self.restoration_bits,
        )


def baselines(dataset: DatasetRecord, split: Split) -> Baselines:
    """Perplexity of a whole split under the uniform and the unigram distribution."""
    with connect(dataset) as connection:
        (row,) = table(connection, "queries/measure_baselines", {"split": split})
    return Baselines(float(row["predictable_tokens"]), perplexity(row["unigram_nll_nats_per_token"]))


def split_facts(dataset: DatasetRecord, split: Split) -> SplitFacts:
    with connect(dataset) as connection:
        (row,) = table(connection, "queries/measure_split", {"split": split})
    return SplitFacts(**row)


def unigram_log_probabilities(dataset: DatasetRecord) -> np.ndarray:
    """(vocabulary,) float32: natural logarithms; 0 for `<pad>` and `<bos>`, which are never predicted.

    The distribution of the unigram baseline: a token never seen in training counts as seen once.
    """
    weights = np.maximum(training_counts(dataset), 1).astype(np.float64)
    weights[[PAD, BOS]] = 0.0
    logarithms = np.log(np.maximum(weights, 1.0) / weights.sum())
    logarithms[[PAD, BOS]] = 0.0
    return logarithms.astype(np.float32)
