"""The loss of every single token of a split, in the order of the text, a chunk at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch

from rnnlm.evaluation.full_softmax import TokenLoss
from rnnlm.home import Home, digest_of, file_digest, read_json, write_json
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.progress import Progress
from rnnlm.records import DatasetRecord, RunRecord, Split
from rnnlm.sequences.batches import (
    CHUNK_TOKENS,
    EVALUATION_WINDOW,
    Batch,
    RowSource,
    by_length,
    chunk_rows,
    cut_stream,
    padded,
    stream_batches,
)
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode, TokenRows, ends, stretches_of
from rnnlm.sequences.shift import padding_mask, shifted_rows
from rnnlm.stages import write_once

NLL, KEY = "nll.npy", "key.json"


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


def token_losses(source: RowSource, nll_nats: np.ndarray) -> Iterator[TokenLosses]:
    """The tokens of a split with their losses, in chunks of about CHUNK_TOKENS: memory does not grow with the split.

    nll_nats: (predicted tokens,), from nll_of_split or stored_nll. Rows overlap in the token that is read first, so
    sentences and the blocks of a stream are alike here.
    """
    done = 0
    for first in range(0, len(source), size := chunk_rows(source)):
        rows = source.read(first, min(first + size, len(source)))
        count = int(rows.predicted.sum())
        yield losses_of_rows(rows, np.arange(first, first + len(rows)), np.asarray(nll_nats[done : done + count]))
        done += count


def stored_nll(
    home: Home, dataset: DatasetRecord, run: RunRecord, split: Split, batch_size: int, *, force: bool = False
) -> np.ndarray:
    """(predicted tokens,) float32, read from RUN/nll-SPLIT: computed once, for all that measure the run's model.

    Computed again if the weights or the dataset are others now.
    """
    folder = run.folder / f"nll-{split}"
    key = digest_of([file_digest(run.model_folder / "model.safetensors"), dataset.dataset_id])

    def build(partial: Path) -> None:
        source = StoredSplit(dataset, split)
        model = load_model(run.model_folder).language_model
        file = np.lib.format.open_memmap(partial / NLL, "w+", np.float32, (source.predicted_count,))
        done = 0
        for nll in nll_of_split(model, source, dataset.mode, batch_size, f"evaluation of {split}"):
            file[done : done + len(nll)] = nll
            done += len(nll)
        file.flush()
        write_json(partial / KEY, key)

    write_once(home, folder, build, force=force or read_json(folder / KEY) != key)
    nll: np.ndarray = np.load(folder / NLL, mmap_mode="r" if dataset.predicted_tokens[split] else None)
    return nll


def nll_of_split(
    model: ElmanLanguageModel, source: RowSource, mode: Mode, batch_size: int = 64, what: str = "evaluation"
) -> Iterator[np.ndarray]:
    """The loss in nats of every predicted token of a split once, in the order of the text, as float32 arrays.

    The full softmax, whatever loss trained the model. batch_size and padding change nothing but rounding; a stream is
    read in one lane, its state carried from end to end. what: begins the lines that tell how far it is.
    """
    loss = TokenLoss(model)
    parts = nll_of_sentences(loss, source, batch_size) if mode == "sentence" else nll_of_stream(loss, source)
    with Progress(what, source.predicted_count, "token") as progress:
        for nll in parts:
            yield nll
            progress.update(len(nll))


def nll_of_sentences(loss: TokenLoss, source: RowSource, batch_size: int) -> Iterator[np.ndarray]:
    """A chunk of rows at a time."""
    for first in range(0, len(source), size := chunk_rows(source)):
        yield nll_of_rows(loss, source.read(first, min(first + size, len(source))), batch_size)


def nll_of_stream(loss: TokenLoss, source: RowSource) -> Iterator[np.ndarray]:
    """A window at a time."""
    state = None
    for batch in stream_batches(source, EVALUATION_WINDOW, cut_stream(source.predicted_count, 1, EVALUATION_WINDOW)):
        nll, state = nll_of_window(loss, batch, state)
        yield nll


@torch.inference_mode()
def nll_of_window(loss: TokenLoss, window: Batch, state: torch.Tensor | None) -> tuple[np.ndarray, torch.Tensor]:
    """(tokens,) float32 of a stream's single lane, and the state after them."""
    device = loss.model.embedding.weight.device
    hidden, state = loss.model.hidden(window.input_ids.to(device), state)
    return loss(hidden[0], window.target_ids[0].to(device)).cpu().numpy(), state


def nll_of_rows(loss: TokenLoss, rows: TokenRows, batch_size: int) -> np.ndarray:
    """(predicted tokens,) float32 in the order of the rows, which the model reads sorted by length; state zero
    before each.
    """
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
        predicted = padding_mask(target_ids)
        nll = torch.zeros(target_ids.shape)
        nll[predicted] = loss(hidden[predicted.to(device)], target_ids[predicted].to(device)).cpu()
        losses.append(nll)
    return torch.cat(losses, dim=1)[batch.mask].numpy()


def losses_of_rows(rows: TokenRows, sequence_ids: np.ndarray, nll_nats: np.ndarray) -> TokenLosses:
    """Rows less their last token as what was read, less their first as what was predicted."""
    return TokenLosses(np.repeat(sequence_ids, rows.predicted), *shifted_rows(rows), nll_nats)
