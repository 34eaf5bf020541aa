"""Distillation: a network learns from another model's probabilities as well as from the text (Hinton and others 2015).

Learning from probabilities means a cross-entropy with all words, each weighted by its probability. Here each token has
DRAWS_PER_TOKEN targets of equal weight instead, drawn from them, beside the token of the text: on average the gradient
is the same. Keeping only the most probable words would bias it (Anshumann and others 2025). The teacher reads the
training text once, before training, so its size does not slow down training.

RUN/drawn_targets.npy   (DRAWS_PER_TOKEN, predicted tokens), deleted when the run is complete
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rnnlm.config.training_config import TrainingConfig
from rnnlm.display.progress import Progress
from rnnlm.errors import ModelError
from rnnlm.home import Home, atomic_file, read_json
from rnnlm.losses.loss import rows_scored_together
from rnnlm.models.devices import evaluation_device
from rnnlm.models.kinds import kind_of
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
DRAWS_PER_TOKEN = 8
ROWS_AT_ONCE = 64  # sentences that the teacher reads together


@dataclass(frozen=True)
class TargetRows:
    """A RowSource with rows as long as those of the text, in which every predicted token is one of its targets."""

    path: Path  # of the drawn targets, in the order of the stored text
    draw: int
    firsts: np.ndarray  # (rows + 1,) predicted tokens before each row

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @property
    def predicted_count(self) -> int:
        return int(self.firsts[-1])

    def read(self, first: int, last: int) -> TokenRows:
        targets = np.load(self.path, mmap_mode="r")[self.draw, self.firsts[first] : self.firsts[last]]
        ends_of_rows = self.firsts[first : last + 1] - self.firsts[first]
        # A row begins with a token that is read but not predicted, here 0.
        return TokenRows(
            np.insert(targets, ends_of_rows[:-1], 0).astype(np.int32), ends_of_rows + np.arange(len(ends_of_rows))
        )

    def close(self) -> None:
        """Nothing to close."""


@dataclass(eq=False)
class TaughtBatches(TrainingBatches):
    """TrainingBatches of the same text in the same order; after its target each token has those that were drawn."""

    drawn_targets: Path = field(kw_only=True)

    @cached_property
    def targets(self) -> list[TargetRows]:
        firsts = ends(np.concatenate([np.zeros(0, np.int64), *(rows.predicted for rows in chunks(self.source))]))
        return [TargetRows(self.drawn_targets, draw, firsts) for draw in range(DRAWS_PER_TOKEN)]

    @cached_property
    def held_targets(self) -> list[ResidentText | None]:
        """On the device, if that holds the text."""
        device = self.device
        return [None if device is None else resident_text(rows, self.mode, device) for rows in self.targets]

    def batches_of_epoch(self, epoch: int, left_out: int, text: ResidentText | None) -> Iterator[Batch]:
        inputs = super().batches_of_epoch(epoch, left_out, text)
        # The order depends on the lengths of the rows alone, so the rows of targets come in the same one.
        targets = [
            TrainingBatches.batches_of_epoch(replace(self, source=rows), epoch, left_out, held)
            for rows, held in zip(self.targets, self.held_targets, strict=True)
        ]
        for batch, *drawn in zip(inputs, *targets, strict=True):
            yield replace(batch, target_ids=torch.stack([one.target_ids for one in (batch, *drawn)], dim=-1))


def write_drawn_targets(home: Home, training: TrainingConfig, dataset: DatasetRecord, folder: Path) -> Path:
    """The file of drawn targets in the run's folder. An interrupted run has it already.

    ModelError if the teacher is no finished run of this home, has no network, or was trained on another dataset.
    """
    path = folder / DRAWN_TARGETS
    assert training.teacher.run is not None
    if not path.exists():
        teacher = load_teacher(home, training.teacher.run, dataset).to(evaluation_device(training.device))
        text = StoredSplit(dataset, "train")
        draw_targets(path, teacher, text, dataset.mode, training.seed)
    return path


def load_teacher(home: Home, run_id: str, dataset: DatasetRecord) -> LanguageModel:
    folder = inside(home.runs, run_id)
    if "/" not in run_id:
        with home.lock(f"run-{run_id}"):
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
    kind = read_json(folder / "model" / "config.json").get("kind")  # of an ensemble None
    if kind is not None and not kind_of(kind).is_trained:
        raise ModelError(f"training.teacher.run={run_id}: counts alone; give a network or an ensemble: rnnlm runs")
    return load_model(folder / "model")


@torch.inference_mode()
def draw_targets(
    path: Path,
    teacher: LanguageModel,
    source: RowSource,
    mode: Mode,
    seed: int,
    draws: int = DRAWS_PER_TOKEN,
) -> None:
    """Write `draws` targets of each predicted token, drawn from the teacher's probabilities.

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
            for rows in hidden[batch.mask.to(device)].split(rows_scored_together(device)):
                drawn = systematic_sample(teacher.logits(rows).softmax(dim=1), draws, generator)
                file[:, done : done + len(rows)] = drawn.t().cpu().numpy()
                done += len(rows)
                progress.update(len(rows))
        file.flush()


def systematic_sample(probabilities: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """probabilities: (n, V) → (n, draws) int64: each class as often as `draws` times its probability, to within one.

    Lay the probabilities of a row end to end, and take the classes at equally spaced points from a random first one.
    """
    ends_of_classes = probabilities.cumsum(dim=1)
    offset = torch.rand((len(probabilities), 1), generator=generator, device=probabilities.device)
    points = (torch.arange(draws, device=probabilities.device) + offset) / draws * ends_of_classes[:, -1:]
    return torch.searchsorted(ends_of_classes, points, right=True).clamp_(max=probabilities.shape[1] - 1)


def in_stored_order(source: RowSource, mode: Mode) -> Iterator[Batch]:
    """Every predicted token once, in stored order; a stream in one lane, with its state carried throughout."""
    if mode == "stream":
        yield from evaluation_batches(source, mode, 1)
        return
    for rows in chunks(source):
        yield from padded(rows, ROWS_AT_ONCE)
