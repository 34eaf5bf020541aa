"""The loss of every token of a split under the full softmax, in chunks in the order of the text."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from rnnlm.display.progress import Progress
from rnnlm.evaluation.batch_losses import finite, nll_of_each_batch
from rnnlm.evaluation.shared_prefix_scoring import nll_of_rows_sharing_prefixes
from rnnlm.models.devices import evaluation_device, float32_products
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import CountMixture, histories, load_mixture
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import EVALUATION_WINDOW, RowSource, chunks, cut_stream, stream_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import contexts, shifted_rows
from rnnlm.storage.home import Home, digest_of, file_digest, read_json, write_json
from rnnlm.storage.records import DatasetRecord, RunRecord, Split
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import write_once

NLL_FILE, KEY_FILE = "nll.npy", "key.json"
# The fields of each predicted token: its stored row, the token before it, the token, and its loss.
TOKEN_LOSS = np.dtype(
    [("sequence_id", np.int64), ("previous_token_id", np.int32), ("token_id", np.int32), ("nll_nats", np.float32)]
)


def token_losses(source: RowSource, nll_nats: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the tokens of a split with their losses, in arrays of type TOKEN_LOSS, (tokens,).

    Memory does not grow with the split. `nll_nats`, (predicted tokens,), is the result of nll_of_split() or
    stored_nll().
    """
    first, done = 0, 0
    for rows in chunks(source):
        losses = np.empty(rows.predicted_count, TOKEN_LOSS)
        losses["sequence_id"] = np.repeat(np.arange(first, first + len(rows)), rows.predicted)
        losses["previous_token_id"], losses["token_id"] = shifted_rows(rows)
        losses["nll_nats"] = nll_nats[done : done + len(losses)]
        yield losses
        first, done = first + len(rows), done + len(losses)


def stored_nll(
    home: Home, dataset: DatasetRecord, run: RunRecord, split: Split, batch_size: int, *, force: bool = False
) -> np.ndarray:
    """Return the losses of the run's model, including its n-gram model if there is one, (predicted tokens,) float32."""
    network = stored_network_nll(home, dataset, run, split, batch_size, force=force)
    mixture = load_mixture(run.model_folder, dataset.vocabulary_size)
    if mixture is None:
        return network
    return joined_nll(mixed_nll(mixture, [network], StoredSplit(dataset, split), dataset.mode))


def stored_network_nll(
    home: Home, dataset: DatasetRecord, run: RunRecord, split: Split, batch_size: int, *, force: bool = False
) -> np.ndarray:
    """Return the losses in nats of the run's network without the n-gram model, (predicted tokens,) float32.

    The losses are stored in RUN/nll-SPLIT. They are computed on first use, and again if the weights or the dataset have
    changed. If the run was not limited to the CPU, they are computed on the best device of this machine, with exact
    float32 products.
    """
    folder = run.folder / f"nll-{split}"
    key = digest_of([file_digest(run.model_folder / "model.safetensors"), dataset.dataset_id])

    def build(partial: Path) -> None:
        source = StoredSplit(dataset, split)
        configured = RunFolder(run.folder).configuration.get("training", {})
        model = load_model(run.model_folder, str(evaluation_device(configured.get("device"))))
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


def nll_of_split(
    model: LanguageModel, source: RowSource, mode: Mode, batch_size: int = 64, what: str = "evaluation"
) -> Iterator[np.ndarray]:
    """Yield the loss in nats of every predicted token once, in the order of the text, as float32 arrays."""
    parts = network_nll_of_split(model, source, mode, batch_size, what)
    return parts if model.mixture is None else mixed_nll(model.mixture, parts, source, mode)


def network_nll_of_split(
    model: LanguageModel, source: RowSource, mode: Mode, batch_size: int = 64, what: str = "evaluation"
) -> Iterator[np.ndarray]:
    """Yield the losses of the network without the n-gram model, or zeros if the model has no network.

    `batch_size` and padding change the results only by rounding. A stream is read as one sequence, and the state is
    carried from the beginning to the end. `what` is the name of the task in progress lines.
    """
    if model.mixture is not None and model.mixture.is_alone:
        parts: Iterator[np.ndarray] = (np.zeros(rows.predicted_count, np.float32) for rows in chunks(source))
    elif mode == "stream":
        cut = cut_stream(source.predicted_count, 1, EVALUATION_WINDOW)
        parts = nll_of_each_batch(model, stream_batches(source, EVALUATION_WINDOW, cut))
    else:
        parts = (nll_of_rows_sharing_prefixes(model, rows, batch_size) for rows in chunks(source))
    with Progress(what, source.predicted_count, "token") as progress:
        for nll in parts:
            yield finite(nll)
            progress.update(len(nll))


def joined_nll(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the losses of all parts as one array, (predicted tokens,) float32."""
    return np.concatenate([np.zeros(0, np.float32), *parts])


def contexts_of_split(source: RowSource, mode: Mode, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the result of contexts() for all rows in chunks.

    The rows of a stream are one text, so contexts extend from one row to the next.
    """
    # The last tokens of the previous chunk, which belong to the contexts of this chunk.
    earlier = np.zeros(0, np.int32)
    for rows in chunks(source):
        if mode == "sentence":
            yield contexts(rows, length)
            continue
        inputs, words = shifted_rows(rows)
        text = np.concatenate([earlier if len(earlier) else inputs[:1], words])
        yield histories(text[None, :-1], length)[0, -len(words) :], words
        earlier = text[-max(1, length) :]


def with_contexts(
    parts: Iterable[np.ndarray], source: RowSource, mode: Mode, length: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the losses, the contexts and the ids of the same tokens; see contexts_of_split().

    `parts` contains arrays of losses of any length, in the order of the text.
    """
    waiting, remaining = np.zeros(0, np.float32), iter(parts)
    for before, words in contexts_of_split(source, mode, length):
        while len(waiting) < len(words):
            waiting = np.concatenate([waiting, next(remaining)])
        yield waiting[: len(words)], before, words
        waiting = waiting[len(words) :]


def mixed_nll(
    mixture: CountMixture, parts: Iterable[np.ndarray], source: RowSource, mode: Mode
) -> Iterator[np.ndarray]:
    """Yield the mixture's losses in nats in chunks. `parts` are the network's losses, in the order of the text."""
    for part in with_contexts(parts, source, mode, mixture.context_length):
        yield mixture.nll(*part)
