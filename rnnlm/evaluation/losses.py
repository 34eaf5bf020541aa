"""The loss of every single token of a split, in the order of the text, a chunk at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch

from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import (
    CHUNK_TOKENS,
    EVALUATION_WINDOW,
    Batch,
    Mode,
    Source,
    by_length,
    chunk_rows,
    cut_stream,
    padded,
    stream_batches,
)
from rnnlm.sequences.cutting import TokenRows, ends, stretches_of
from rnnlm.training.losses.definition import token_nll


@dataclass(frozen=True)
class TokenLosses:
    """Predicted tokens in the order of the text; four arrays of one length."""

    sequence_ids: np.ndarray  # int64: the stored row that predicts it
    previous_ids: np.ndarray  # int32: the token read just before
    token_ids: np.ndarray  # int32: the token predicted
    nll_nats: np.ndarray  # float32: its negative log-likelihood

    def __len__(self) -> int:
        return len(self.token_ids)

    def cut(self, first: int, last: int | None = None) -> "TokenLosses":
        """Tokens first … last - 1."""
        return TokenLosses(*(getattr(self, field.name)[first:last] for field in fields(self)))


def joined_losses(parts: list[TokenLosses]) -> TokenLosses:
    """At least one part; one after the other."""
    return TokenLosses(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(parts[0])))


def token_losses(model: ElmanLanguageModel, source: Source, mode: Mode, batch_size: int = 64) -> Iterator[TokenLosses]:
    """Every predicted token of a split once, in chunks of about CHUNK_TOKENS: memory does not grow with the split.

    From the very batches that scoring.nll_of_batches adds up, so that the sums agree. As there, batch_size and
    padding change nothing but rounding; a stream is read in one lane, its state carried from end to end.
    """
    return losses_of_sentences(model, source, batch_size) if mode == "sentence" else losses_of_stream(model, source)


def losses_of_sentences(model: ElmanLanguageModel, source: Source, batch_size: int) -> Iterator[TokenLosses]:
    """Rows are sorted by length for the model and put back in their order afterwards."""
    for first in range(0, len(source), size := chunk_rows(source)):
        rows = source.read(first, min(first + size, len(source)))
        order = by_length(np.arange(len(rows)), rows.lengths)
        batches = padded(rows.take(order), batch_size)
        by_length_nll = np.concatenate([batch_losses(model, batch, None)[0] for batch in batches])
        place = np.argsort(order)  # row → where it stands in the order
        starts = ends(rows.predicted[order])[:-1]
        nll = stretches_of(by_length_nll, starts[place], rows.predicted).token_ids
        yield losses_of_rows(rows, np.arange(first, first + len(rows)), nll)


def losses_of_stream(model: ElmanLanguageModel, source: Source) -> Iterator[TokenLosses]:
    """Window after window; collected to chunks."""
    block = int(source.read(0, 1).predicted[0])  # predicted tokens of every stored row but the last
    cut = cut_stream(source.predicted_count, 1, EVALUATION_WINDOW)
    state, done = None, 0
    waiting: list[TokenLosses] = []
    for batch in stream_batches(source, EVALUATION_WINDOW, cut):
        nll, state = batch_losses(model, batch, state)
        places = np.arange(done, done + len(nll))
        inputs, targets = (ids[0].numpy().astype(np.int32) for ids in (batch.input_ids, batch.target_ids))
        waiting.append(TokenLosses(places // block, inputs, targets, nll))
        done += len(nll)
        if sum(map(len, waiting)) >= CHUNK_TOKENS:
            yield joined_losses(waiting)
            waiting = []
    if waiting:
        yield joined_losses(waiting)


@torch.inference_mode()
def batch_losses(
    model: ElmanLanguageModel, batch: Batch, state: torch.Tensor | None
) -> tuple[np.ndarray, torch.Tensor]:
    """(predicted tokens,) float32 row after row without padding, and the state after them."""
    device = model.embedding.weight.device
    hidden, state = model.hidden(batch.input_ids.to(device), state if batch.carries_state else None)
    nll = token_nll(model, hidden, batch.target_ids.to(device)).cpu()
    return nll[batch.target_ids.ne(model.pad_id)].numpy(), state


def losses_of_rows(rows: TokenRows, sequence_ids: np.ndarray, nll_nats: np.ndarray) -> TokenLosses:
    """Rows less their last token as what was read, less their first as what was predicted."""
    is_input, is_target = np.ones((2, len(rows.token_ids)), bool)
    is_input[rows.offsets[1:] - 1] = is_target[rows.offsets[:-1]] = False
    return TokenLosses(
        np.repeat(sequence_ids, rows.predicted), rows.token_ids[is_input], rows.token_ids[is_target], nll_nats
    )
