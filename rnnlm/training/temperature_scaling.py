"""Temperature scaling: one number against overconfidence (Guo, Pleiss, Sun, Weinberger 2017).

A model that has read its training text many times is surer of any other text than it should be. Divided by a
temperature above 1 its logits say the same words in the same order, less surely. The temperature is the one under which
the validation split is most probable; it goes into the weights, so that whoever loads the model need not know of it.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch

from rnnlm.evaluation.perplexity import read_batches
from rnnlm.losses.loss import in_rows
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.shift import padding_mask

GRID = 10.0 ** (np.arange(-16, 17) / 16)  # of 1 / temperature: from 0.1 to 10
NEIGHBOURS = 4  # of the grid on each side of the last best: those that are tried together in one pass
EVEN = 1e-9  # nats per token: less than that between the grid's best and worst, and no temperature changes anything


def fit_temperature(model: ElmanLanguageModel, batches: Callable[[], Iterable[Batch]]) -> float:
    """The temperature with the smallest summed loss on the batches, between 0.1 and 10.

    One pass over them measures all temperatures between 0.56 and 1.8. The loss is convex in 1 / temperature, so only if
    the best of these is at an end does another pass look further. A parabola through the best and its neighbours
    gives what lies between.
    """
    centre = len(GRID) // 2
    while True:
        first = min(max(0, centre - NEIGHBOURS), len(GRID) - 2 * NEIGHBOURS - 1)
        places = np.arange(first, first + 2 * NEIGHBOURS + 1)
        nats = summed_nll_by_sharpness(model, batches(), GRID[places])
        if np.ptp(nats) <= EVEN * len(nats):
            return 1.0
        best = int(nats.argmin())
        if 0 < best < len(places) - 1:
            return float(1 / (GRID[places[best]] * 10 ** (vertex(nats[best - 1 : best + 2]) / 16)))
        if places[best] in (0, len(GRID) - 1):
            return float(1 / GRID[places[best]])
        centre = int(places[best])


def vertex(values: np.ndarray) -> float:
    """Where a parabola through (-1, a), (0, b), (1, c) is lowest."""
    left, middle, right = values.tolist()
    return 0.5 * (left - right) / (left - 2 * middle + right)


@torch.inference_mode()
def summed_nll_by_sharpness(model: ElmanLanguageModel, batches: Iterable[Batch], sharpness: np.ndarray) -> np.ndarray:
    """(k,) float64: the loss in nats of all predicted tokens for each of k values of 1 / temperature.

    The logits, which cost most, are computed once for all of them.
    """
    total = np.zeros(len(sharpness))
    for _, hidden, all_targets in read_batches(model, batches):
        for rows, target_ids in in_rows(hidden, all_targets):
            predicted = padding_mask(target_ids)
            logits, target_ids = model.logits(rows[predicted]).float(), target_ids[predicted]
            of_targets = logits.gather(1, target_ids[:, None])[:, 0].double()
            for index, times in enumerate(sharpness.tolist()):
                log_z = torch.logsumexp(logits * times, dim=1)
                total[index] += float((log_z.double() - times * of_targets).sum())
    return total


@torch.no_grad()
def divide_logits(model: ElmanLanguageModel, temperature: float) -> None:
    """In place: from now on the model's logits are those of before over the temperature; its states are the same.

    A tied embedding is divided, too; the lowest cell's W makes up for it.
    """
    model.head.weight.div_(temperature)
    model.head.bias.div_(temperature)
    if model.head.weight is model.embedding.weight:
        model.stack.cells[0].W.mul_(temperature)
