"""Dynamic evaluation (Krause et al. 2018), in which a model continues to learn from text that it has scored.

After each segment, the weights take one step of gradient descent on the segment's mean loss, and then a step back
towards the trained weights: w ← w - rate * gradient, then w ← w + decay * (trained - w). If a sentence ends within a
segment, both steps are shortened in proportion, so that every token has the same influence.

The better variant of the paper gives each weight its own rate and decay. They depend on r, which is the RMS of the
weight's gradient on the training text, divided by the mean RMS of all weights. The rate is divided by r + SMOOTHING,
and the decay is multiplied by r.
"""

import copy
from collections.abc import Iterable
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.extensions.adaptation.adaptation_config import DynamicConfig
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch

STATISTICS_SEGMENTS = 500  # The number of segments of the training text on which the RMS of the gradients is measured.
# The number that is added to r before a rate is divided by it, so that no weight's rate exceeds ten times the
# configured rate.
SMOOTHING = 0.1

# One tensor per weight of trainable(model), with the values r of the module's docstring. Their mean over all weights is
# 1.
GradientRms = list[Tensor]


class DynamicModel:
    """A copy of a model that learns from each segment after it has scored the segment.

    If gradient_rms is None, all weights have the same rate and decay.
    """

    def __init__(self, model: LanguageModel, config: DynamicConfig, gradient_rms: GradientRms | None) -> None:
        self.network = copy.deepcopy(model)
        self.segment_length = config.segment_length
        self.weights = trainable(self.network)
        self.trained = [weight.detach().clone() for weight in self.weights]
        if gradient_rms is None:
            self.rates = [torch.tensor(config.rate)] * len(self.weights)
            self.decays = [torch.tensor(config.decay)] * len(self.weights)
        else:
            self.rates = [config.rate / (r + SMOOTHING) for r in gradient_rms]
            self.decays = [(config.decay * r).clamp(max=1.0) for r in gradient_rms]

    def learn(self, nll: Tensor) -> None:
        """Update the weights after a segment.

        `nll` has the losses of the segment's tokens under the current weights in nats, (t,).
        """
        share = len(nll) / self.segment_length
        gradients = torch.autograd.grad(nll.mean(), self.weights)
        with torch.no_grad():
            for weight, trained, gradient, rate, decay in zip(
                self.weights, self.trained, gradients, self.rates, self.decays, strict=True
            ):
                weight.sub_(share * rate * gradient)
                weight.lerp_(trained, share * decay)


def measure_gradient_rms(model: LanguageModel, train: Iterable[Batch], segment_length: int) -> GradientRms:
    """Return the RMS gradient of each weight over the first training segments, relative to the mean of all weights."""
    weights = trainable(model)
    squares = [torch.zeros_like(weight) for weight in weights]
    state = None
    for segment in islice(train, STATISTICS_SEGMENTS):
        hidden, after = model.hidden(segment.input_ids, state if segment.carries_state else None)
        loss = functional.cross_entropy(model.logits(hidden[0]), segment.target_ids[0], reduction="sum")
        gradients = torch.autograd.grad(loss / segment_length, weights)
        for square, gradient in zip(squares, gradients, strict=True):
            square.addcmul_(gradient, gradient)
        state = after.detach()
    # Dividing by the mean cancels the number of segments, so the sums need not be averaged.
    roots = [square.sqrt_() for square in squares]
    mean = sum(float(root.sum()) for root in roots) / sum(root.numel() for root in roots)
    return [root / mean for root in roots]


def trainable(model: LanguageModel) -> list[torch.nn.Parameter]:
    return [weight for weight in model.parameters() if weight.requires_grad]
