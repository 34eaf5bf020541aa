"""Accuracy by position in the row, and how long greedy continuations stay correct."""

from collections.abc import Iterable

import torch
from torch import Tensor

from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.storage.records import RightByPosition
from rnnlm.tokenizers.text_tokenizer import EOS

LOGIT_ROWS = 1_024  # computed together


@torch.inference_mode()
def right_by_position(model: LanguageModel, batches: Iterable[Batch], given_tokens: int) -> RightByPosition:
    """Accuracy over all batches, whose rows start with state zero.

    `<eos>` is neither predicted nor counted: the length of a row is not a question of memory.
    """
    counts: list[Tensor] = []  # each (3, t): rows, right, exact
    for batch in batches:
        counted = batch.mask & (batch.target_ids != EOS)  # (b, t)
        hits = (best_guesses(model, batch.input_ids) == batch.target_ids) & counted
        faultless = hits.clone()
        faultless[:, :given_tokens] = True
        faultless = faultless.cumprod(dim=1).bool() & counted
        counts.append(torch.stack([counted.sum(dim=0), hits.sum(dim=0), faultless.sum(dim=0)]))
    longest = max((count.shape[1] for count in counts), default=0)
    padded = [torch.nn.functional.pad(count, (0, longest - count.shape[1])) for count in counts]
    columns = torch.stack(padded).sum(dim=0).t().tolist() if padded else []
    columns = [column for column in columns if column[0]]
    return RightByPosition(
        rows=tuple(rows for rows, _, _ in columns),
        right=tuple(right / rows for rows, right, _ in columns),
        exact=tuple(
            exact / rows if position >= given_tokens else None for position, (rows, _, exact) in enumerate(columns)
        ),
        given_tokens=given_tokens,
    )


def best_guesses(model: LanguageModel, input_ids: Tensor) -> Tensor:
    """(b, t) int64 → (b, t): the most likely next token other than `<eos>`."""
    hidden, _ = model.hidden(input_ids)
    guesses = []
    for rows in hidden.flatten(0, 1).split(LOGIT_ROWS):
        logits = model.logits(rows)
        logits[:, EOS] = float("-inf")
        guesses.append(logits.argmax(dim=-1))
    return torch.cat(guesses).view(input_ids.shape)
