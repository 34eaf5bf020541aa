"""A slow reference implementation of generation, which computes each token from the whole text before it."""

from unittest.mock import patch

import torch
from torch import Tensor

from rnnlm.models.language_model import LanguageModel
from tests.reference_log_probabilities import log_probabilities_of

Text = list[int]


def logits_after(model: LanguageModel, ids: Text) -> Tensor:
    """Return the logits, (V,), of the token that follows `ids`, computed without a cached state."""
    with patch.object(model.stack, "backend", "loop"), torch.no_grad():
        if model.mixture is not None:
            return log_probabilities_of(model, ids)[-1]
        return model.logits(model.hidden(torch.tensor([ids]))[0][0, -1])


def greedy(model: LanguageModel, prompt: Text, maximum: int, eos: int | None) -> Text:
    """Return the new ids of greedy decoding. They include `<eos>`."""
    ids = list(prompt)
    while len(ids) < len(prompt) + maximum and (len(ids) == len(prompt) or ids[-1] != eos):
        ids.append(int(logits_after(model, ids).argmax()))
    return ids[len(prompt) :]


def beam_search(
    model: LanguageModel, prompt: Text, width: int, maximum: int, eos: int | None, penalty: float
) -> list[tuple[Text, float]]:
    """Return the `width` best texts of new ids with their scores. The best text is the first.

    A score is log_probability / number_of_new_ids ** penalty. In each step, the `width` best texts that end are
    finished, and the `width` best texts that do not end continue. The search ends when `width` texts are finished and
    no running text has a better score than the worst of them.
    """
    running: list[tuple[Text, float]] = [([], 0.0)]
    finished: list[tuple[Text, float]] = []
    for length in range(1, maximum + 1):
        longer = []
        for ids, total in running:
            log_probabilities = logits_after(model, prompt + ids).log_softmax(dim=-1).tolist()
            longer += [([*ids, token_id], total + value) for token_id, value in enumerate(log_probabilities)]
        longer = sorted(longer, key=lambda text: -text[1])[: 2 * width]
        ended = [text for text in longer[:width] if text[0][-1] == eos or length == maximum]
        finished += [(ids, total / length**penalty) for ids, total in ended]
        finished = sorted(finished, key=lambda text: -text[1])[:width]
        running = [text for text in longer if text[0][-1] != eos][:width]
        if len(finished) == width and running[0][1] / length**penalty <= finished[-1][1]:
            break
    return finished
