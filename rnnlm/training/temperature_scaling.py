"""Temperature scaling: the logits are divided by one number, against overconfidence (Guo et al. 2017).

A model that has read its training text many times is overconfident on other text. A temperature above 1 flattens the
predicted distribution without changing the order of its logits. The temperature is chosen to minimize the loss on the
validation split. The weights are divided by it, so that users of the model need not apply the temperature.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import Polynomial
from torch import nn

from rnnlm.losses.loss import in_rows
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.shift import padding_mask

# The values of 1 / temperature for which the loss is computed, from 0.1 to 10.
GRID = 10.0 ** (np.arange(-16, 17) / 16)
NEIGHBOURS = 4  # The number of grid points on each side of the centre for which one pass computes the loss.
FLAT_NATS = 1e-8  # If the largest and the smallest loss differ by less than this, the temperature has no effect.


def scale_temperature(model: LanguageModel, batches: Callable[[], Iterable[Batch]]) -> "TemperatureFit":
    """Divide the model's logits in place by the temperature that minimizes the loss on the batches."""
    fit = fit_temperature(model, batches)
    divide_logits(model, fit.temperature)
    return fit


class TemperatureFit(NamedTuple):
    temperature: float
    summed_nll_nats: float  # The loss at this temperature, summed over all predicted tokens.


def fit_temperature(model: LanguageModel, batches: Callable[[], Iterable[Batch]]) -> TemperatureFit:
    """Return the temperature between 0.1 and 10 with the smallest loss on the batches, and this summed loss.

    One pass over the batches computes the loss at nine temperatures, at first from 0.56 to 1.8. The loss is convex in 1
    / temperature, so a further pass is needed only if the lowest loss is at an end of the range. The temperature is the
    minimum of a parabola through the lowest loss and its two neighbours. The loss at this temperature is interpolated
    by the polynomial through all nine points, which is exact to about the precision of float32.
    """
    centre = len(GRID) // 2
    while True:
        first = min(max(0, centre - NEIGHBOURS), len(GRID) - 2 * NEIGHBOURS - 1)
        indices = np.arange(first, first + 2 * NEIGHBOURS + 1)
        nats = summed_nll_by_sharpness(model, batches(), GRID[indices])
        if np.ptp(nats) <= FLAT_NATS:
            return TemperatureFit(1.0, float(nats[0]))
        best = int(nats.argmin())
        if 0 < best < len(indices) - 1:
            offset = vertex(nats[best - 1 : best + 2])
            loss = Polynomial.fit(np.arange(len(nats)), nats, len(nats) - 1)
            return TemperatureFit(float(1 / (GRID[indices[best]] * 10 ** (offset / 16))), float(loss(best + offset)))
        if indices[best] in (0, len(GRID) - 1):
            return TemperatureFit(float(1 / GRID[indices[best]]), float(nats[best]))
        centre = int(indices[best])


def vertex(values: np.ndarray) -> float:
    """Return the x coordinate of the vertex of the parabola through (-1, a), (0, b), (1, c).

    `values` are a, b and c.
    """
    left, middle, right = values.tolist()
    return 0.5 * (left - right) / (left - 2 * middle + right)


@torch.inference_mode()
def summed_nll_by_sharpness(model: LanguageModel, batches: Iterable[Batch], sharpness: np.ndarray) -> np.ndarray:
    """Return the loss in nats, summed over all predicted tokens, for each value of 1 / temperature.

    The result is float64 of shape (k,). The logits are the most expensive part, and are computed once for all values.
    The maximum of each row is subtracted, so that no power overflows.
    """
    total, state, device = np.zeros(len(sharpness)), None, model.embedding.weight.device
    for batch in batches:
        hidden, state = model.hidden(batch.input_ids.to(device), state if batch.carries_state else None)
        for rows, target_ids in in_rows(hidden, batch.target_ids.to(device)):
            predicted = padding_mask(target_ids)
            logits, target_ids = model.logits(rows[predicted]).float(), target_ids[predicted]
            logits -= logits.amax(dim=1, keepdim=True)
            target_logits = logits.gather(1, target_ids[:, None])[:, 0].double()
            powers = torch.empty_like(logits)
            for index, factor in enumerate(sharpness.tolist()):
                # torch computes powers of two several times as fast as powers of e.
                torch.exp2(torch.mul(logits, factor * math.log2(math.e), out=powers), out=powers)
                total[index] += float((powers.sum(dim=1).double().log() - factor * target_logits).sum())
    return total


@torch.no_grad()
def divide_logits(model: LanguageModel, temperature: float) -> None:
    """Divide the model's logits in place, without changing its recurrent states.

    If the stack normalizes its output, the gain of this normalization is divided. Otherwise the weights of the head are
    divided. If the head is tied to the embedding, this also divides the embedding. The W of the lowest layer is then
    multiplied by the temperature, so that its inputs do not change.
    """
    model.head.bias.div_(temperature)
    if isinstance(model.stack.output_norm, nn.RMSNorm):
        model.stack.output_norm.weight.div_(temperature)
        return
    model.head.weight.div_(temperature)
    if model.head.weight is model.embedding.weight:
        model.stack.cells[0].get_parameter("W").mul_(temperature)
