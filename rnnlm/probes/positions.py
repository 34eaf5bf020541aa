"""Where in a row a model guesses right, and how far it goes on alone without a mistake."""

from collections.abc import Iterable

import torch
from torch import Tensor

from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.records import Record
from rnnlm.sequences.batches import Batch
from rnnlm.tokenizers.text_tokenizer import EOS

LOGITS_AT_ONCE = 1_024  # rows of (V,)


class RightByPosition(Record):
    """By position p = 0, 1, … of the predicted token in its row, over the rows that reach so far.

    right: share whose best guess is the token that comes, all before it being given.
    exact: share that is right at every position from given_tokens to p; before given_tokens there is no value.
    A model that went on alone from given_tokens, always with its best guess, would be exact in the very same rows:
    as long as each guess is right, what it reads is what is given here.
    """

    rows: tuple[int, ...]
    right: tuple[float, ...]
    exact: tuple[float | None, ...]
    given_tokens: int


@torch.inference_mode()
def right_by_position(model: ElmanLanguageModel, batches: Iterable[Batch], given_tokens: int) -> RightByPosition:
    """Counts over all batches, whose rows each begin with state zero.

    How long a row is, is no matter of memory: `<eos>` is no guess, and is not counted where it comes.
    """
    counts: list[Tensor] = []  # each (3, t): rows, right, exact
    for batch in batches:
        real = batch.mask & (batch.target_ids != EOS)  # (b, t)
        hits = (best_guesses(model, batch.input_ids) == batch.target_ids) & real
        faultless = hits.clone()
        faultless[:, :given_tokens] = True
        faultless = faultless.cumprod(dim=1).bool() & real
        counts.append(torch.stack([real.sum(dim=0), hits.sum(dim=0), faultless.sum(dim=0)]))
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


def best_guesses(model: ElmanLanguageModel, input_ids: Tensor) -> Tensor:
    """(b, t) int64 → (b, t): the likeliest next token that is no `<eos>`."""
    hidden, _ = model.hidden(input_ids)
    guesses = []
    for rows in hidden.flatten(0, 1).split(LOGITS_AT_ONCE):
        logits = model.logits(rows)
        logits[:, EOS] = float("-inf")
        guesses.append(logits.argmax(dim=-1))
    return torch.cat(guesses).view(input_ids.shape)
