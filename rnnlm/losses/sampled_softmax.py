"""The fast loss: the softmax over the target and a shared sample of classes, instead of the whole vocabulary.

The softmax of a token divides by z = Σ exp(logit) over all classes. Here z is estimated as exp(logit of the target)
+ Σ exp(logit) / π over the sampled others, π being the probability with which a class comes into the sample: every
class is expected to count once, so that the estimate has no bias (Horvitz, Thompson 1952). Subtracting log π from
the logits does this. Bengio and Senécal (2003) train language models by such a sample; that one sample serves all
tokens of the batch makes it a matrix product (Jean et al. 2015).

The frequent classes, which hold most of z, come into every sample with certainty: what is left to chance is the
tail. So the estimate varies little, and the model it trains is calibrated under the exact softmax from the start.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import pad

from rnnlm.losses.projection import LearntInForward, Projection, log_normalizers
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.shift import padding_mask


class SampledCrossEntropy:
    """A Loss with `classes` of the vocabulary in each sample; all of them: the exact loss.

    unigram: (V,) probability or count of each class in training, 0 for those never predicted. Classes are drawn by
    unigram ** flattening: below 1 the rare ones come oftener. precision: of the products, whose sums are float32.
    """

    def __init__(
        self, unigram: np.ndarray, classes: int, precision: torch.dtype = torch.float32, flattening: float = 0.75
    ) -> None:
        self.inclusion = inclusion_probabilities(np.asarray(unigram, np.float64) ** flattening, classes)
        self.cumulative = torch.from_numpy(np.cumsum(self.inclusion))
        self.size = round(float(self.cumulative[-1]))  # fewer than `classes` where the vocabulary has fewer
        self.log_inclusion = torch.from_numpy(np.log(np.maximum(self.inclusion, 1e-300))).float()
        self.precision = precision

    def draw(self, generator: torch.Generator) -> Tensor:
        """Sorted ids, (classes,) int64, none twice: systematic sampling.

        Each class owns a stretch as long as its π of a line as long as the sample; a comb with teeth one apart is
        laid on it at random, and as no π exceeds 1, no class meets two teeth.
        """
        teeth = torch.arange(self.size, dtype=torch.float64) + torch.rand((), generator=generator, dtype=torch.float64)
        return torch.searchsorted(self.cumulative, teeth, right=True).clamp_(max=len(self.cumulative) - 1)

    def __call__(self, model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        """sample: as `draw` gave it, on the model's device."""
        assert sample is not None
        rows, targets = hidden.flatten(0, 1), target_ids.flatten()
        predicted = padding_mask(targets)
        self.log_inclusion = self.log_inclusion.to(rows.device)
        # sparse: the gradient holds the looked-up rows alone, and the optimizer leaves all others as they are.
        sparse = model.embedding.sparse
        sampled_weight = functional.embedding(sample, model.head.weight, sparse=sparse)  # (classes, H)
        target_weight = functional.embedding(targets, model.head.weight, sparse=sparse)  # (n, H)
        target_logits = (rows * target_weight).sum(dim=1) + model.head.bias[targets]
        log_z: Tensor = SummedLogZ.apply(
            rows,
            sampled_weight,
            model.head.bias[sample] - self.log_inclusion[sample],
            target_logits,
            column_of(targets, sample),
            predicted,
            self.precision,
        )
        return (log_z - target_logits.masked_fill(~predicted, 0.0).sum()) / predicted.sum()


def column_of(targets: Tensor, sample: Tensor) -> Tensor:
    """(n,): where in the sorted sample each target is; len(sample) where it is not."""
    column = torch.searchsorted(sample, targets)
    found = sample[column.clamp(max=len(sample) - 1)] == targets
    return torch.where(found, column, len(sample))


class SummedLogZ(LearntInForward):
    """Σ log z over the predicted rows, a float32 scalar; z = exp(target's logit) + Σ exp(logit) of the sampled others.

    rows (n, H); weight (S, H) and bias (S,) of the sample, log π subtracted; target_logits (n,); column (n,) int64, of
    the target in the sample, or S; predicted (n,) bool.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor,
        target_logits: Tensor,
        column: Tensor,
        predicted: Tensor,
        precision: torch.dtype,
    ) -> Tensor:
        # One column more, the last: for the target, as it is without log π.
        projection = Projection(rows, pad(weight, (0, 0, 0, 1)), pad(bias, (0, 1)), predicted, precision)
        total, target_grad = rows.new_zeros(()), torch.empty_like(target_logits)
        for chunk, logits in projection.chunks():
            logits.scatter_(1, column[chunk, None], float("-inf"))  # so that a target in the sample counts once
            logits[:, -1] = target_logits[chunk]
            probabilities = logits.softmax(dim=1)
            target_grad[chunk] = probabilities[:, -1].to(rows.dtype)
            nll = log_normalizers(logits, probabilities) - logits[:, -1].float()  # of the target's logit as rounded
            total += (target_logits[chunk] + nll).masked_fill(~predicted[chunk], 0.0).sum()
            probabilities[:, -1] = 0.0  # its gradient goes to the target's logit
            projection.learn(chunk, probabilities)
        rows_grad, weight_grad, bias_grad = projection.gradients()
        target_grad.masked_fill_(~predicted, 0.0)
        ctx.save_for_backward(rows_grad, weight_grad[:-1], bias_grad[:-1], target_grad)
        return total


def inclusion_probabilities(weights: np.ndarray, size: int) -> np.ndarray:
    """π (V,) proportional to weights, at most 1, with sum `size`; 1 wherever size exceeds the classes with weight.

    ValueError where size is below 1.
    """
    if size < 1:
        raise ValueError(f"sample of {size} classes: expected at least 1")
    candidates = weights > 0
    if size >= candidates.sum():
        return candidates.astype(np.float64)
    certain = np.zeros(len(weights), bool)
    while True:
        rest = candidates & ~certain
        inclusion = np.where(certain, 1.0, 0.0)
        inclusion[rest] = weights[rest] * (size - certain.sum()) / weights[rest].sum()
        if not (inclusion > 1).any():
            return inclusion
        certain |= inclusion > 1  # what they had too much goes to the others
