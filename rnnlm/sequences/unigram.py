"""The unigram distribution of the training split. A token that does not occur in this split has the count 1."""

import numpy as np

from rnnlm.sequences.dataset_reader import training_counts
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.text_tokenizer import BOS, PAD

NEVER_PREDICTED = [PAD, BOS]


def unigram_counts(dataset: DatasetRecord) -> np.ndarray:
    """Return the number of times each token is a target in the training split, (vocabulary,) int64.

    The count is at least 1, except for tokens that are NEVER_PREDICTED, whose count is 0.
    """
    counts = np.maximum(training_counts(dataset), 1)
    counts[NEVER_PREDICTED] = 0
    return counts


def unigram(dataset: DatasetRecord) -> np.ndarray:
    """Return the natural logarithms of the relative frequencies, (vocabulary,) float64, with 0 for NEVER_PREDICTED."""
    counts = unigram_counts(dataset).astype(np.float64)
    logarithms = np.log(np.maximum(counts, 1.0) / counts.sum())
    logarithms[NEVER_PREDICTED] = 0.0
    return logarithms


def unigram_log_probabilities(dataset: DatasetRecord) -> np.ndarray:
    """Return the result of unigram() as float32, for the bias of the head."""
    return unigram(dataset).astype(np.float32)
