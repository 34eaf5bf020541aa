"""Which loss a configuration asks for."""

import numpy as np

from rnnlm.config import TrainingConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.training.devices import precision_of_products


def choose_loss(config: TrainingConfig, training_counts: np.ndarray, never_predicted: np.ndarray) -> Loss:
    """training_counts: (V,) how often the training split predicts each class; never_predicted: (V,) bool."""
    precision = precision_of_products(config)
    if config.loss.kind == "sampled":
        unigram = np.where(never_predicted, 0, np.maximum(training_counts, 1))  # never seen: as if seen once
        return SampledCrossEntropy(unigram, config.loss.sampled_classes, precision)
    return ChunkedCrossEntropy(precision)
