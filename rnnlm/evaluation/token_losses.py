"""The loss of every token of a split under the full softmax, in the order of the text, chunk by chunk."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch

from rnnlm.display.progress import Progress
from rnnlm.evaluation.count_shares import mixed_nll
from rnnlm.evaluation.full_softmax import TokenLoss
from rnnlm.evaluation.shared_prefix_scoring import contexts
from rnnlm.home import Home, digest_of, file_digest, read_json, write_json
from rnnlm.models.devices import choose_device, float32_products
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import load_mixture
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import (
    EVALUATION_WINDOW,
    Batch,
    RowSource,
    chunks,
    cut_stream,
    stream_batches,
)
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode, TokenRows
from rnnlm.sequences.shift import shifted_rows
from rnnlm.storage.records import DatasetRecord, RunRecord, Split
from rnnlm.storage.stages import write_once

NLL_FILE, KEY_FILE = "nll.npy", "key.json"


@dataclass(frozen=True)
class TokenLosses:
    """Predicted tokens in the order of the text; four arrays of one length."""

    sequence_ids: np.ndarray  # int64: the stored row that predicts the token
    previous_ids: np.ndarray  # int32: the token before it
    token_ids: np.ndarray  # int32
    nll_nats: np.ndarray  # float32

    def __len__(self) -> int:
        return len(self.token_ids)

    def cut(self, first: int, last: int | None = None) -> "TokenLosses":
        """Tokens first … last - 1."""
        return TokenLosses(*(getattr(self, field.name)[first:last] for field in fields(self)))


def joined_losses(parts: list[TokenLosses]) -> TokenLosses:
    """One part after the other; at least one."""
    return TokenLosses(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(parts[0])))


def token_losses(source: RowSource, nll_nats: np.ndarray) -> Iterator[TokenLosses]:
    """The tokens of a split with their losses, in chunks of about CHUNK_TOKENS: memory does not grow with the split.

    nll_nats: (predicted tokens,), from nll_of_split or stored_nll.
    """
    first, done = 0, 0
    for rows in chunks(source):
        sequence_ids = np.repeat(np.arange(first, first + len(rows)), rows.predicted)
        nll = np.asarray(nll_nats[done : done + len(sequence_ids)])
        yield TokenLosses(sequence_ids, *shifted_rows(rows), nll)
        first, done = first + len(rows), done + len(sequence_ids)


def stored_nll(
    home: Home, dataset: DatasetRecord, run: RunRecord, split: Split, batch_size: int, *, force: bool = False
) -> np.ndarray:
    """(predicted tokens,) float32 nats of the run's model as it is served: its network, with its counts if any."""
    network = stored_network_nll(home, dataset, run, split, batch_size, force=force)
    mixture = load_mixture(run.model_folder, dataset.vocabulary_size)
    if mixture is None:
        return network
    return np.concatenate(
        [np.zeros(0, np.float32), *mixed_nll(mixture, [network], StoredSplit(dataset, split), dataset.mode)]
    )


def stored_network_nll(
    home: Home, dataset: DatasetRecord, run: RunRecord, split: Split, batch_size: int, *, force: bool = False
) -> np.ndarray:
    """(predicted tokens,) float32 nats of the run's network alone, from RUN/nll-SPLIT; computed on first use.

    Computed again if the weights or the dataset have changed. On a GPU if the run may train on one, with exact
    float32 products.
    """
    folder = run.folder / f"nll-{split}"
    key = digest_of([file_digest(run.model_folder / "model.safetensors"), dataset.dataset_id])

    def build(partial: Path) -> None:
        source = StoredSplit(dataset, split)
        model = load_model(run.model_folder, str(evaluation_device(run)))
        file = np.lib.format.open_memmap(partial / NLL_FILE, "w+", np.float32, (source.predicted_count,))
        done = 0
        with float32_products("float32"):
            for nll in network_nll_of_split(model, source, dataset.mode, batch_size, f"evaluation of {split}"):
                file[done : done + len(nll)] = nll
                done += len(nll)
        file.flush()
        write_json(partial / KEY_FILE, key)

    write_once(home, folder, build, force=force or read_json(folder / KEY_FILE) != key)
    nll: np.ndarray = np.load(folder / NLL_FILE, mmap_mode="r" if dataset.predicted_tokens[split] else None)
    return nll


def evaluation_device(run: RunRecord) -> torch.device:
    """The CPU if the run was configured to train there, else the best device of this machine."""
    configured = (read_json(run.folder / "config.json") or {}).get("training", {}).get("device")
    return choose_device("cpu" if configured == "cpu" else "auto")


def nll_of_split(
    model: LanguageModel, source: RowSource, mode: Mode, batch_size: int = 64, what: str = "evaluation"
) -> Iterator[np.ndarray]:
    """The loss in nats of every predicted token once, in the order of the text, as float32 arrays."""
    parts = network_nll_of_split(model, source, mode, batch_size, what)
    return parts if model.mixture is None else mixed_nll(model.mixture, parts, source, mode)


def network_nll_of_split(
    model: LanguageModel, source: RowSource, mode: Mode, batch_size: int = 64, what: str = "evaluation"
) -> Iterator[np.ndarray]:
    """The same of the network alone; zeros if the model has none, but counts alone.

    batch_size and padding change only rounding. A stream is read in one lane, its state carried from end to end.
    what: the name of the work in progress lines.
    """
    if model.mixture is not None and model.mixture.is_alone:
        parts: Iterator[np.ndarray] = (np.zeros(rows.predicted_count, np.float32) for rows in chunks(source))
    elif mode == "stream":
        cut = cut_stream(source.predicted_count, 1, EVALUATION_WINDOW)
        parts = nll_of_each_batch(model, stream_batches(source, EVALUATION_WINDOW, cut))
    else:
        parts = (nll_of_rows(model, rows, batch_size) for rows in chunks(source))
    with Progress(what, source.predicted_count, "token") as progress:
        for nll in parts:
            yield nll
            progress.update(len(nll))


def nll_of_rows(model: LanguageModel, rows: TokenRows, batch_size: int) -> np.ndarray:
    """(predicted tokens,) float32 in the order of the rows; the state is zero before each row."""
    loss, nll = TokenLoss(model), np.zeros(rows.predicted_count, np.float32)
    for places, hidden, target_ids in contexts(model, rows, batch_size):
        nll[places] = loss(hidden, target_ids).cpu().numpy()
    return nll


@torch.inference_mode()
def nll_of_each_batch(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
    """(predicted tokens,) float32 nats of each batch, row after row without padding.

    A stream's state is carried from batch to batch. Long rows go through the model window by window.
    """
    device = model.embedding.weight.device
    loss, state = TokenLoss(model), None
    for batch in batches:
        state = state if batch.carries_state else None
        losses = torch.zeros(batch.target_ids.shape)
        predicted = batch.mask
        for first in range(0, batch.target_ids.shape[1], EVALUATION_WINDOW):
            window = slice(first, first + EVALUATION_WINDOW)
            hidden, state = model.hidden(batch.input_ids[:, window].to(device), state)
            here = predicted[:, window]
            losses[:, window][here] = loss(hidden[here.to(device)], batch.target_ids[:, window][here].to(device)).cpu()
        yield losses[predicted].numpy()


def nll_of_batches(model: LanguageModel, batches: Iterable[Batch]) -> tuple[float, int]:
    """Summed negative log-likelihood in nats, and the number of predicted tokens."""
    total, count = 0.0, 0
    for nll in nll_of_each_batch(model, batches):
        total += float(nll.sum(dtype=np.float64))
        count += len(nll)
    return total, count
