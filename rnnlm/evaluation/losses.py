"""The loss of every single token of a split, in the order of the text, a chunk at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch

from rnnlm.evaluation.full_softmax import TokenLoss
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
    """A chunk of rows at a time."""
    loss = TokenLoss(model)
    for first in range(0, len(source), size := chunk_rows(source)):
        rows = source.read(first, min(first + size, len(source)))
        yield losses_of_rows(rows, np.arange(first, first + len(rows)), nll_of_rows(loss, rows, batch_size))


def losses_of_stream(model: ElmanLanguageModel, source: Source) -> Iterator[TokenLosses]:
    """Window after window; collected to chunks."""
    loss = TokenLoss(model)
    block = int(source.read(0, 1).predicted[0])  # predicted tokens of every stored row but the last
    cut = cut_stream(source.predicted_count, 1, EVALUATION_WINDOW)
    state, done = None, 0
    waiting: list[TokenLosses] = []
    for batch in stream_batches(source, EVALUATION_WINDOW, cut):
        nll, state = nll_of_window(loss, batch, state)
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
def nll_of_window(loss: TokenLoss, window: Batch, state: torch.Tensor | None) -> tuple[np.ndarray, torch.Tensor]:
    """(tokens,) float32 of a stream's single lane, and the state after them."""
    device = loss.model.embedding.weight.device
    hidden, state = loss.model.hidden(window.input_ids.to(device), state)
    return loss(hidden[0], window.target_ids[0].to(device)).cpu().numpy(), state


def nll_of_rows(loss: TokenLoss, rows: TokenRows, batch_size: int) -> np.ndarray:
    """(predicted tokens,) float32 in the order of the rows, which the model reads sorted by length; state zero
    before each."""
    order = by_length(np.arange(len(rows)), rows.lengths)
    by_length_nll = [np.zeros(0, np.float32)]
    for group in groups(order, rows.lengths, batch_size):
        (batch,) = padded(rows.take(group), len(group))
        by_length_nll.append(nll_of_batch(loss, batch))
    place = np.argsort(order)  # row → where it stands in the order
    starts = ends(rows.predicted[order])[:-1]
    return stretches_of(np.concatenate(by_length_nll), starts[place], rows.predicted).token_ids


def groups(order: np.ndarray, lengths: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Rows of about the same length, batch_size of them, fewer where they are long: padded, CHUNK_TOKENS or one row."""
    first = 0
    while first < len(order):
        group = order[first : first + batch_size]
        while len(group) > 1 and len(group) * lengths[group[-1]] > CHUNK_TOKENS:
            group = group[: len(group) // 2]
        yield group
        first += len(group)


@torch.inference_mode()
def nll_of_batch(loss: TokenLoss, batch: Batch) -> np.ndarray:
    """(predicted tokens,) float32 row after row without padding; long rows go through the model window by window."""
    model = loss.model
    device = model.embedding.weight.device
    state, losses = None, []
    windows = (ids.split(EVALUATION_WINDOW, dim=1) for ids in (batch.input_ids, batch.target_ids))
    for input_ids, target_ids in zip(*windows, strict=True):
        hidden, state = model.hidden(input_ids.to(device), state)
        predicted = target_ids.ne(model.pad_id)
        nll = torch.zeros(target_ids.shape)
        nll[predicted] = loss(hidden[predicted.to(device)], target_ids[predicted].to(device)).cpu()
        losses.append(nll)
    return torch.cat(losses, dim=1)[batch.target_ids.ne(model.pad_id)].numpy()


def losses_of_rows(rows: TokenRows, sequence_ids: np.ndarray, nll_nats: np.ndarray) -> TokenLosses:
    """Rows less their last token as what was read, less their first as what was predicted."""
    is_input, is_target = np.ones((2, len(rows.token_ids)), bool)
    is_input[rows.offsets[1:] - 1] = is_target[rows.offsets[:-1]] = False
    return TokenLosses(
        np.repeat(sequence_ids, rows.predicted), rows.token_ids[is_input], rows.token_ids[is_target], nll_nats
    )
