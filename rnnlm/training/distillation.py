"""Distillation: a network learns from another model's probabilities as well as from the text (Hinton and others 2015).

Learning from probabilities means a cross-entropy with all words, each weighted by its probability. Here each target is
instead drawn from them, anew in each epoch: on average the gradient is the same, and every loss works as it is. Keeping
only the most probable words would bias it (Anshumann and others 2025). The teacher reads the training text once, before
training, and draws all targets, so its size does not slow down training.

RUN/drawn_targets.npy   (draws, predicted tokens), deleted when the run is complete
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from rnnlm.config.training_config import TrainingConfig
from rnnlm.display.progress import Progress
from rnnlm.errors import ModelError
from rnnlm.home import Home, atomic_file, read_json
from rnnlm.losses.loss import in_rows
from rnnlm.models.devices import choose_device
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import Batch, RowSource, chunks, padded
from rnnlm.sequences.data_feed import TrainingBatches, evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.gpu_resident import ResidentText, resident_text
from rnnlm.sequences.segmentation import Mode, TokenRows, ends
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import fetch_folder, find_new_damage, mark_used

DRAWN_TARGETS = "drawn_targets.npy"
MAXIMUM_DRAWS = 16  # for each token; later epochs use them again
ROWS_AT_ONCE = 64  # sentences that the teacher reads together


@dataclass(frozen=True)
class TargetRows:
    """A RowSource with rows as long as those of the text, in which every predicted token is a drawn target."""

    source: RowSource
    path: Path  # of the drawn targets, (draws, predicted tokens), in the order of the stored text
    epoch: int
    firsts: np.ndarray  # (rows + 1,) predicted tokens before each row

    def __len__(self) -> int:
        return len(self.source)

    @property
    def predicted_count(self) -> int:
        return self.source.predicted_count

    def read(self, first: int, last: int) -> TokenRows:
        rows = self.source.read(first, last)
        drawn = np.load(self.path, mmap_mode="r")
        targets, predicted = rows.token_ids.copy(), np.ones(len(rows.token_ids), bool)
        predicted[rows.offsets[:-1]] = False  # of each row, the token before its first target
        targets[predicted] = drawn[self.epoch % len(drawn), self.firsts[first] : self.firsts[last]]
        return TokenRows(targets, rows.offsets)

    def close(self) -> None:
        self.source.close()


@dataclass(eq=False)
class TaughtBatches(TrainingBatches):
    """TrainingBatches of the same text in the same order, with drawn targets."""

    drawn_targets: Path = field(kw_only=True)

    @cached_property
    def firsts(self) -> np.ndarray:
        """(rows + 1,) predicted tokens before each row."""
        return ends(np.concatenate([np.zeros(0, np.int64), *(rows.predicted for rows in chunks(self.source))]))

    def batches_of_epoch(self, epoch: int, left_out: int, text: ResidentText | None) -> Iterator[Batch]:
        # The order depends on the lengths of the rows alone, so the rows of targets come in the same one.
        rows = TargetRows(self.source, self.drawn_targets, epoch, self.firsts)
        held = None if self.device is None else resident_text(rows, self.mode, self.device)
        inputs = super().batches_of_epoch(epoch, left_out, text)
        targets = TrainingBatches.batches_of_epoch(replace(self, source=rows), epoch, left_out, held)
        for batch, drawn in zip(inputs, targets, strict=True):
            yield replace(batch, target_ids=drawn.target_ids)


def write_drawn_targets(home: Home, training: TrainingConfig, dataset: DatasetRecord, folder: Path) -> Path:
    """The file of drawn targets in the run's folder. An interrupted run has it already.

    ModelError if the teacher is no finished run of this home, or was trained on another dataset.
    """
    path = folder / DRAWN_TARGETS
    assert training.teacher.run is not None
    if not path.exists():
        teacher = load_teacher(home, training.teacher.run, dataset).to(choose_device(training.device))
        draws = min(training.epoch_count, MAXIMUM_DRAWS)
        draw_targets(
            path, teacher, StoredSplit(dataset, "train"), dataset.mode, draws, training.teacher.share, training.seed
        )
    return path


def load_teacher(home: Home, run_id: str, dataset: DatasetRecord) -> LanguageModel:
    folder = inside(home.runs, run_id)
    fetch_folder(folder)
    if (damage := find_new_damage(home, folder)) is not None:
        raise ModelError(f"training.teacher.run={run_id}: {folder}: {damage};\ngive a finished run: rnnlm runs")
    mark_used(folder)
    facts = read_json(folder / "run.json")
    if facts["dataset_id"] != dataset.dataset_id:
        raise ModelError(
            f"training.teacher.run={run_id}: it was trained on dataset {facts['dataset_id'][:12]}, and this run has "
            f"{dataset.dataset_id[:12]};\ntrain the teacher on the same text, with the same tokenizer and sequences"
        )
    return load_model(folder / "model")


@torch.inference_mode()
def draw_targets(
    path: Path, teacher: LanguageModel, source: RowSource, mode: Mode, draws: int, share: float, seed: int
) -> None:
    """Write `draws` targets for each predicted token: with probability `share` one of the teacher's, else the text's.

    The teacher's network is drawn from, without its counts: those of a text predict that text too well.
    """
    device = teacher.embedding.weight.device
    generator = torch.Generator(device).manual_seed(seed)
    kind = np.min_scalar_type(teacher.config["vocab_size"] - 1)
    with atomic_file(path) as partial, Progress("teacher", source.predicted_count, "token") as progress:
        file = np.lib.format.open_memmap(partial, "w+", kind, (draws, source.predicted_count))  # type: ignore[no-untyped-call]
        done, state = 0, None
        for batch in in_stored_order(source, mode):
            hidden, state = teacher.hidden(batch.input_ids.to(device), state if batch.carries_state else None)
            mask = batch.mask.to(device)
            for rows, own in in_rows(hidden[mask][None], batch.target_ids.to(device)[mask][None]):
                probabilities = teacher.logits(rows).softmax(dim=1)
                drawn = torch.multinomial(probabilities, draws, replacement=True, generator=generator)
                of_teacher = torch.rand(drawn.shape, generator=generator, device=device) < share
                file[:, done : done + len(own)] = torch.where(of_teacher, drawn, own[:, None]).t().cpu().numpy()
                done += len(own)
                progress.update(len(own))
        file.flush()


def in_stored_order(source: RowSource, mode: Mode) -> Iterator[Batch]:
    """Every predicted token once, in stored order; a stream in one lane, with its state carried throughout."""
    if mode == "stream":
        yield from evaluation_batches(source, mode, 1)
        return
    for rows in chunks(source):
        yield from padded(rows, ROWS_AT_ONCE)
