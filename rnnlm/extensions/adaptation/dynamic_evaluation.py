"""Dynamic evaluation (Krause, Kahembwe, Murray and Renals 2018): keep learning from text that has been scored.

After each segment: one step of gradient descent on its mean loss, then a step back towards the trained weights,
w ← w - rate * gradient, w ← w + decay * (trained - w). If a sentence ends within a segment, both steps are shorter in
proportion: every token counts the same. The paper's better variant gives each weight its own rate and decay, by r, the
RMS of its gradient in training relative to the average weight: its steps are about r times shorter, and it is drawn
back r times as fast.
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

STATISTICS_SEGMENTS = 500  # of the training text, to measure gradients on
SMOOTHING = 0.1  # added to r, so that a weight without gradients takes steps at most ten times as long

GradientRms = list[Tensor]  # r in the shapes of trainable(model); the mean over all weights is 1


class DynamicModel:
    """A copy of a model that learns. gradient_rms None: the same rate and decay for all weights."""

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
        """Learn from a segment. nll: (t,) nats of its tokens under the current weights."""
        share = len(nll) / self.segment_length
        gradients = torch.autograd.grad(nll.mean(), self.weights)
        with torch.no_grad():
            for weight, trained, gradient, rate, decay in zip(
                self.weights, self.trained, gradients, self.rates, self.decays, strict=True
            ):
                weight.sub_(share * rate * gradient)
                weight.lerp_(trained, share * decay)


def measure_gradient_rms(model: LanguageModel, train: Iterable[Batch], segment_length: int) -> GradientRms:
    """Return the root mean square of each weight's gradient over the first training segments, divided by their mean."""
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
    roots = [square.sqrt_() for square in squares]  # the number of segments cancels out
    mean = sum(float(root.sum()) for root in roots) / sum(root.numel() for root in roots)
    return [root / mean for root in roots]


def trainable(model: LanguageModel) -> list[torch.nn.Parameter]:
    return [weight for weight in model.parameters() if weight.requires_grad]
