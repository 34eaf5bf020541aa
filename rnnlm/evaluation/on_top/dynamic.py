"""Dynamic evaluation (Krause, Kahembwe, Murray and Renals 2018): go on learning from the text, once it was scored.

After each segment one step of gradient descent on its mean loss, then a step back towards the trained weights:
w ← w - rate * gradient, w ← w + decay * (trained - w). The paper's plain variant; it also has one with each weight's
own rate.
"""

import copy

import torch
from torch import Tensor

from rnnlm.config import DynamicConfig
from rnnlm.models.elman import ElmanLanguageModel


class DynamicModel:
    """A copy of a model that learns; the model itself stays as it is."""

    def __init__(self, model: ElmanLanguageModel, config: DynamicConfig) -> None:
        self.network = copy.deepcopy(model)
        self.segment_length = config.segment_length
        self.rate = config.rate
        self.decay = config.decay
        self.weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        self.trained = [weight.detach().clone() for weight in self.weights]

    def learn(self, loss: Tensor) -> None:
        """loss: a scalar that the network, as it is now, gave."""
        gradients = torch.autograd.grad(loss, self.weights)
        with torch.no_grad():
            for weight, gradient, trained in zip(self.weights, gradients, self.trained, strict=True):
                weight.add_(gradient, alpha=-self.rate)
                weight.lerp_(trained, self.decay)
