"""The sampled softmax, a fast loss over the target and a sample of classes instead of the whole vocabulary.

The softmax divides by z = Σ exp(logit) over all classes. Here z is estimated as

    z ≈ exp(logit of the target) + Σ exp(logit) / π over the sampled other classes,

where π is the probability that a class is in the sample. The estimate is unbiased (Horvitz and Thompson 1952). If a
token has several targets, all of them are in the first term. Dividing by π means subtracting log π from the logit.
Bengio and Senécal (2003) train language models by sampling. All tokens of a batch use the same sample, so
that the logits are a matrix product (Jean et al. 2015).

Frequent classes, which contribute most of z, have π = 1, so only the rare classes are random. The estimate therefore
has a low variance, and the trained model is calibrated under the exact softmax.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import pad

from rnnlm.losses.loss import target_shares
from rnnlm.losses.projection import GradientInForward, Projection, log_normalizers
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.shift import padding_mask

# The exponent of the frequencies by which classes are drawn. Below 1, rare classes are drawn more often than in
# proportion to their frequency.
FLATTENING = 0.75


class SampledCrossEntropy:
    """A Loss that samples `classes` classes of the vocabulary. With all classes it equals the exact loss.

    Args:
        unigram: The count or probability of each class in the training text, (V,). It is 0 if the class is never
            predicted. Classes are drawn in proportion to unigram ** FLATTENING.
        classes: The number of classes in each sample.
        precision: The precision of matrix products; sums are float32.
        text_share: The weight of a token's first target, if it has several; see target_shares.
    """

    def __init__(
        self, unigram: np.ndarray, classes: int, precision: torch.dtype = torch.float32, text_share: float = 1.0
    ) -> None:
        self.inclusion = inclusion_probabilities(np.asarray(unigram, np.float64) ** FLATTENING, classes)
        self.cumulative = torch.from_numpy(np.cumsum(self.inclusion))
        # The number of classes in a sample. It is below `classes` if the vocabulary is smaller.
        self.size = round(float(self.cumulative[-1]))
        self.log_inclusion = torch.from_numpy(np.log(np.maximum(self.inclusion, 1e-300))).float()
        self.precision = precision
        self.text_share = text_share

    def draw(self, generator: torch.Generator) -> Tensor:
        """Draw a systematic sample, (classes,) int64, of sorted ids without duplicates.

        The intervals of length π of all classes are placed end to end. The sample consists of the classes at the points
        u, u + 1, u + 2, … with a random u in [0, 1). No π exceeds 1, so no class is drawn twice.
        """
        offset = torch.rand((), generator=generator, dtype=torch.float64)
        points = torch.arange(self.size, dtype=torch.float64) + offset
        return torch.searchsorted(self.cumulative, points, right=True).clamp_(max=len(self.cumulative) - 1)

    def __call__(self, model: LanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        """Return the sampled loss; see Loss. `sample` is the result of `draw` on the model's device."""
        assert sample is not None
        rows = hidden.flatten(0, 1).to(model.head.weight.dtype)
        targets = target_ids.reshape(len(rows), -1)  # (n, k)
        predicted = padding_mask(targets[:, 0])
        self.log_inclusion = self.log_inclusion.to(rows.device)
        # With sparse=True, the gradient contains only the rows that were looked up, and the optimizer updates only
        # these rows.
        sparse = model.embedding.sparse
        sampled_weight = functional.embedding(sample, model.head.weight, sparse=sparse)  # (classes, H)
        target_weight = functional.embedding(targets, model.head.weight, sparse=sparse)  # (n, k, H)
        target_logits = (rows[:, None] * target_weight).sum(dim=2) + model.head.bias[targets]
        log_z: Tensor = SummedLogZ.apply(
            rows,
            sampled_weight,
            model.head.bias[sample] - self.log_inclusion[sample],
            target_logits.masked_fill(repeated(targets), float("-inf")),
            find_column(targets, sample),
            predicted,
            self.precision,
        )
        target_logit = (target_logits * target_shares(targets, self.text_share)).sum(dim=1)
        return (log_z - target_logit.masked_fill(~predicted, 0.0).sum()) / predicted.sum()


def repeated(targets: Tensor) -> Tensor:
    """Return a mask, (n, k), which is true where the same target is in an earlier column of `targets`."""
    return (targets[:, :, None] == targets[:, None, :]).tril(diagonal=-1).any(dim=2)


def find_column(targets: Tensor, sample: Tensor) -> Tensor:
    """Return the index of each target in the sorted sample, (n, k), or len(sample) if it is not in the sample."""
    column = torch.searchsorted(sample, targets)
    found = sample[column.clamp(max=len(sample) - 1)] == targets
    return torch.where(found, column, len(sample))


class SummedLogZ(GradientInForward):
    """The sum of log z over the predicted rows, float32, where z also includes the targets.

        z = Σ exp(target logit) + Σ exp(logit) of the other sampled classes

    The arguments are:

    - rows, (n, H)
    - weight, (S, H), and bias, (S,), of the sampled classes; log π has been subtracted from the bias
    - target_logits, (n, k), which are -inf for a target that is also in an earlier column
    - column, (n, k) int64, the index of each target in the sample, or S
    - predicted, (n,) bool
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
        # The last columns are the targets, whose logits are not divided by π.
        size, count = len(weight), target_logits.shape[1]
        projection = Projection(rows, pad(weight, (0, 0, 0, count)), pad(bias, (0, count)), predicted, precision)
        total, target_grad = rows.new_zeros(()), torch.empty_like(target_logits)
        for chunk, logits in projection.chunks():
            # A sampled class that is also the target is excluded here, because the target is counted separately. Unlike
            # scatter_, indexing copies no logits.
            places = torch.arange(len(logits), device=logits.device)[:, None], column[chunk]
            logits.index_put_(places, logits.new_full((), float("-inf")))
            logits[:, size:] = target_logits[chunk]
            probabilities = logits.softmax(dim=1)
            target_grad[chunk] = probabilities[:, size:].to(rows.dtype)
            # The target's logit is taken from the rounded logits, so that it is rounded like its term in log z.
            target = torch.full((len(logits),), size, device=logits.device)
            nll = log_normalizers(logits, probabilities, target, predicted[chunk]) - logits[:, size].float()
            total = total + (target_logits[chunk, 0] + nll).masked_fill(~predicted[chunk], 0.0).sum()
            # The gradients of the targets' columns are returned for target_logits, not for the sampled classes.
            probabilities[:, size:] = 0.0
            projection.accumulate(chunk, probabilities)
            del logits, probabilities  # The next chunk uses their memory again.
        rows_grad, weight_grad, bias_grad = projection.gradients()
        target_grad.masked_fill_(~predicted[:, None], 0.0)
        ctx.save_for_backward(rows_grad, weight_grad[:size], bias_grad[:size], target_grad)
        return total


def inclusion_probabilities(weights: np.ndarray, size: int) -> np.ndarray:
    """Return the probability that a sample of `size` classes contains each class, (V,).

    The probabilities are proportional to the weights, but at most 1, and sum to `size`. If at most `size` classes have
    a positive weight, the probability of each of them is 1. Raise ValueError if `size` is below 1.
    """
    if size < 1:
        raise ValueError(f"expected a sample of at least 1 class, found {size}")
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
        # Probabilities above 1 are set to 1, and the excess is distributed to the other classes.
        certain |= inclusion > 1
