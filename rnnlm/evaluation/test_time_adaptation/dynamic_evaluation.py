"""Dynamic evaluation (Krause, Kahembwe, Murray and Renals 2018): go on learning from the text, once it was scored.

After each segment one step of gradient descent on its mean loss, then a step back towards the trained weights:
w ← w - rate * gradient, w ← w + decay * (trained - w). Where a sentence ends within a segment, both steps are as
much shorter as the segment is: every token counts the same. The paper's better variant gives each weight its own
rate and decay, by how large its gradients were in training: a weight r times as restless as the average one takes
steps about r times as short, and is drawn back r times as fast.
"""

import copy
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.evaluation.test_time_adaptation.adaptation_config import DynamicConfig
from rnnlm.evaluation.test_time_adaptation.segments import segments
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.segmentation import Mode

STATISTICS_SEGMENTS = 500  # of the training text, whose gradients are measured
SMOOTHING = 0.1  # added to r: a weight without gradients in training takes steps ten times as long, not endless ones

Restlessness = list[Tensor]  # r, in the shapes of trainable(model); their mean is 1


class DynamicModel:
    """A copy of a model that learns; the model itself stays as it is. restlessness None: all weights go alike."""

    def __init__(self, model: ElmanLanguageModel, config: DynamicConfig, restlessness: Restlessness | None) -> None:
        self.network = copy.deepcopy(model)
        self.segment_length = config.segment_length
        self.weights = trainable(self.network)
        self.trained = [weight.detach().clone() for weight in self.weights]
        if restlessness is None:
            self.rates, self.decays = (
                [torch.tensor(value)] * len(self.weights) for value in (config.rate, config.decay)
            )
        else:
            self.rates = [config.rate / (r + SMOOTHING) for r in restlessness]
            self.decays = [(config.decay * r).clamp(max=1.0) for r in restlessness]

    def learn(self, nll: Tensor) -> None:
        """nll: (t,) nats of a segment's tokens, as the network is now."""
        share = len(nll) / self.segment_length
        gradients = torch.autograd.grad(nll.mean(), self.weights)
        with torch.no_grad():
            for place, (weight, gradient) in enumerate(zip(self.weights, gradients, strict=True)):
                weight.sub_(share * self.rates[place] * gradient)
                weight.lerp_(self.trained[place], share * self.decays[place])


def measure_restlessness(
    model: ElmanLanguageModel, train: RowSource, mode: Mode, config: DynamicConfig
) -> Restlessness:
    """Of each weight: the root mean square of its gradient over the training text's first segments, over the mean."""
    weights = trainable(model)
    squares = [torch.zeros_like(weight) for weight in weights]
    state = None
    for segment in islice(segments(train, mode, config.segment_length), STATISTICS_SEGMENTS):
        hidden, after = model.hidden(segment.input_ids, state if segment.carries_state else None)
        loss = functional.cross_entropy(model.logits(hidden[0]), segment.target_ids[0], reduction="sum")
        gradients = torch.autograd.grad(loss / config.segment_length, weights)
        for square, gradient in zip(squares, gradients, strict=True):
            square.addcmul_(gradient, gradient)
        state = after.detach()
    roots = [square.sqrt_() for square in squares]  # the number of segments cancels out
    mean = sum(float(root.sum()) for root in roots) / sum(root.numel() for root in roots)
    return [root / mean for root in roots]


def trainable(model: ElmanLanguageModel) -> list[torch.nn.Parameter]:
    return [weight for weight in model.parameters() if weight.requires_grad]
