"""Baselines for the perplexity of a split, and the size of its raw text.

SQL computes the baselines for the tokens that a model predicts.
"""

from dataclasses import dataclass

import numpy as np

from rnnlm.metrics import Score, perplexity
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.sql_tables import table
from rnnlm.sequences.unigram import NEVER_PREDICTED, unigram
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.storage.sql_statements import statement


@dataclass(frozen=True)
class Baselines:
    # The uniform distribution's perplexity, which equals the number of tokens that can be predicted.
    uniform_perplexity: float
    unigram_perplexity: float


@dataclass(frozen=True)
class SplitFacts:
    byte_count: int  # The number of UTF-8 bytes of the raw split, including line ends.
    predicted_tokens: int
    unknown_tokens: int  # The number of predicted words that are not in the vocabulary.
    # The number of bits needed to restore the text from its tokens; see TextTokenizer.restoration_bits.
    restoration_bits: float

    def score(self, summed_nll_nats: float) -> Score:
        return Score(
            summed_nll_nats=summed_nll_nats,
            tokens=self.predicted_tokens,
            byte_count=self.byte_count,
            unknown_tokens=self.unknown_tokens,
            restoration_bits=self.restoration_bits,
        )


def baselines(dataset: DatasetRecord, split: Split) -> Baselines:
    """Return the perplexities of the uniform and the unigram distribution on a whole split."""
    with connect(dataset) as connection:
        targets = connection.execute(statement("queries/count_targets"), {"split": split}).fetchnumpy()
    nll_nats = -np.average(unigram(dataset)[targets["token_id"]], weights=targets["count"])
    return Baselines(float(dataset.vocabulary_size - len(NEVER_PREDICTED)), perplexity(float(nll_nats)))


def split_facts(dataset: DatasetRecord, split: Split) -> SplitFacts:
    with connect(dataset) as connection:
        (row,) = table(connection, "queries/measure_split", {"split": split})
    return SplitFacts(**row)
