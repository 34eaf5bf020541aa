"""Temperature scaling: one number against overconfidence (Guo, Pleiss, Sun, Weinberger 2017).

A model that has read its training text many times is surer of any other text than it should be. Divided by a
temperature above 1 its logits say the same words in the same order, less surely. The temperature is the one under which
the validation split is most probable; it goes into the weights, so that whoever loads the model need not know of it.
"""

from collections.abc import Callable, Iterable

import torch

from rnnlm.evaluation.scoring import read_batches
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import Batch
from rnnlm.training.losses.definition import in_rows

FLATTEST, SHARPEST = 0.1, 10.0  # bounds of 1 / temperature
ENOUGH = 1e-3  # a relative change below which it is found: the loss is flat there
MOST_PASSES = 20


def fit_temperature(model: ElmanLanguageModel, batches: Callable[[], Iterable[Batch]]) -> float:
    """The temperature with the smallest summed loss on the batches, between 0.1 and 10. Some three passes over them.

    In sharpness, 1 / temperature, the loss is convex: Newton's method, at most halving or doubling it in a step.
    """
    sharpness = 1.0
    for _ in range(MOST_PASSES):
        slope, curvature = derivatives(model, batches(), sharpness)
        if curvature == 0.0:  # the same logit for every class: no temperature changes anything
            break
        before = sharpness
        lowest, highest = max(before / 2, FLATTEST), min(before * 2, SHARPEST)
        sharpness = min(max(before - slope / curvature, lowest), highest)
        if abs(sharpness / before - 1) < ENOUGH:
            break
    return 1 / sharpness


@torch.inference_mode()
def derivatives(model: ElmanLanguageModel, batches: Iterable[Batch], sharpness: float) -> tuple[float, float]:
    """First and second derivative of the summed loss by the sharpness s, over all predicted tokens.

    With logits z and p = softmax(s z) the loss of a token y is logsumexp(s z) - s z_y: its derivatives are
    E_p[z] - z_y and Var_p[z].
    """
    first, second = 0.0, 0.0
    for _, hidden, all_targets in read_batches(model, batches):
        for rows, target_ids in in_rows(hidden, all_targets):
            predicted = target_ids != model.pad_id
            logits, target_ids = model.logits(rows[predicted]).float(), target_ids[predicted]
            p = torch.softmax(logits * sharpness, dim=1)
            logits = logits.masked_fill(model.never_predicted, 0.0)  # their p is 0
            mean = (p * logits).sum(dim=1)
            variance = (p * (logits - mean[:, None]).square()).sum(dim=1)
            of_targets = logits.gather(1, target_ids[:, None])[:, 0]
            first += float((mean - of_targets).double().sum())
            second += float(variance.double().sum())
    return first, second


@torch.no_grad()
def divide_logits(model: ElmanLanguageModel, temperature: float) -> None:
    """In place: from now on the model's logits are those of before over the temperature; its states are the same.

    A tied embedding is divided, too; the lowest cell's W makes up for it.
    """
    model.head.weight.div_(temperature)
    model.head.bias.div_(temperature)
    if model.head.weight is model.embedding.weight:
        model.stack.cells[0].W.mul_(temperature)
