"""A network learns from another model's probabilities as well as from the text (Hinton and others 2015).

Learning from probabilities means a cross-entropy with all words, each weighted by its probability. Here each token has
DRAWS_PER_TOKEN targets of equal weight instead, drawn from them, beside the token of the text: on average the gradient
is the same. Keeping only the most probable words would bias it (Anshumann and others 2025). The teacher reads the
training text once, before training, so its size does not slow down training.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rnnlm.config.kinds import kind_of
from rnnlm.config.training_config import TrainingConfig
from rnnlm.display.progress import Progress
from rnnlm.errors import ModelError
from rnnlm.extensions.distillation.teacher_config import TeacherConfig
from rnnlm.losses.loss import rows_scored_together
from rnnlm.models.devices import evaluation_device
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import Batch, RowSource, chunks, padded
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, atomic_file, read_json
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import fetch_folder, find_new_damage, mark_used

DRAWS_PER_TOKEN = 8
ROWS_AT_ONCE = 64  # sentences that the teacher reads together


@dataclass(frozen=True)
class TargetsOfTeacher:
    """FurtherTargets that a finished run's model draws."""

    run_id: str
    share: float
    training: TrainingConfig
    count: int = DRAWS_PER_TOKEN

    def write(self, home: Home, dataset: DatasetRecord, path: Path) -> None:
        """Raise ModelError if the run is not finished, has no network, or was trained on another dataset."""
        teacher = load_teacher(home, self.run_id, dataset).to(evaluation_device(self.training.device))
        draw_targets(path, teacher, StoredSplit(dataset, "train"), dataset.mode, self.training.seed)


def targets_of_teacher(training: TrainingConfig) -> TargetsOfTeacher | None:
    """Return the targets of training.teacher, or None if there is none."""
    teacher = TeacherConfig.of(training)
    return None if teacher.run is None else TargetsOfTeacher(teacher.run, teacher.share, training)


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
    """Draw each class as often as `draws` times its probability, to within one, (n, draws) int64.

    probabilities: (n, V).

    Lay the probabilities of a row end to end, and take the classes at equally spaced points from a random first one.
    """
    ends_of_classes = probabilities.cumsum(dim=1)
    offset = torch.rand((len(probabilities), 1), generator=generator, device=probabilities.device)
    points = (torch.arange(draws, device=probabilities.device) + offset) / draws * ends_of_classes[:, -1:]
    return torch.searchsorted(ends_of_classes, points, right=True).clamp_(max=probabilities.shape[1] - 1)


def in_stored_order(source: RowSource, mode: Mode) -> Iterator[Batch]:
    """Yield every predicted token once, in stored order; a stream in one lane, with its state carried throughout."""
    if mode == "stream":
        yield from evaluation_batches(source, mode, 1)
        return
    for rows in chunks(source):
        yield from padded(rows, ROWS_AT_ONCE)
