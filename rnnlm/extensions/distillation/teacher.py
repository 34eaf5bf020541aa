"""Let a network learn from another model's probabilities as well as from the text (Hinton and others 2015).

The other model is the teacher. Distillation usually minimizes the cross-entropy with all words, each weighted by the
teacher's probability. Here, DRAWS_PER_TOKEN targets of equal weight are drawn from these probabilities for each token,
in addition to the token of the text. The expected gradient is the same with both methods. Keeping only the most
probable words would bias the gradient (Anshumann and others 2025). The teacher reads the training text once, before
training. Hence a large teacher does not slow down training.
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
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import fetch_folder, find_new_damage, mark_used

DRAWS_PER_TOKEN = 8
ROWS_AT_ONCE = 64  # The number of sentences for which the teacher computes targets at once.


@dataclass(frozen=True)
class TargetsOfTeacher:
    """Additional training targets (FurtherTargets), drawn from the probabilities of the model of a finished run."""

    run_id: str
    share: float
    training: TrainingConfig
    count: int = DRAWS_PER_TOKEN

    def write(self, home: Home, dataset: DatasetRecord, path: Path) -> None:
        """Write the targets to a file.

        Raise ModelError if the teacher's run is not finished, has no network, or was trained on another dataset.
        """
        teacher = load_teacher(home, self.run_id, dataset).to(evaluation_device(self.training.device))
        draw_targets(path, teacher, StoredSplit(dataset, "train"), dataset.mode, self.training.seed)


def targets_of_teacher(training: TrainingConfig) -> TargetsOfTeacher | None:
    """Return the targets of the teacher in training.teacher, or None if no teacher is configured."""
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
    facts = RunFolder(folder).facts
    if facts["dataset_id"] != dataset.dataset_id:
        raise ModelError(
            f"training.teacher.run={run_id}: the teacher was trained on dataset {facts['dataset_id'][:12]}, "
            f"but this run uses {dataset.dataset_id[:12]};\n"
            "train the teacher on the same text, with the same tokenizer and sequences"
        )
    # The configuration of an ensemble has no entry `kind`.
    kind = read_json(folder / "model" / "config.json").get("kind")
    if kind is not None and not kind_of(kind).is_trained:
        raise ModelError(
            f"training.teacher.run={run_id}: the model is only n-gram counts; give a network or an ensemble: rnnlm runs"
        )
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
    """Write `draws` targets for each predicted token, drawn from the teacher's probabilities.

    Only the teacher's network is used. Its n-gram model was counted on the same text and would predict this text too
    well.
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
    """Draw classes from each row's distribution. A class is drawn floor(draws · p) or ceil(draws · p) times.

    The result has the shape (n, draws), int64. The intervals of a row's probabilities, (n, V), are joined to one line.
    The classes at equally spaced points of this line are drawn, beginning at a random point.
    """
    ends_of_classes = probabilities.cumsum(dim=1)
    offset = torch.rand((len(probabilities), 1), generator=generator, device=probabilities.device)
    points = (torch.arange(draws, device=probabilities.device) + offset) / draws * ends_of_classes[:, -1:]
    return torch.searchsorted(ends_of_classes, points, right=True).clamp_(max=probabilities.shape[1] - 1)


def in_stored_order(source: RowSource, mode: Mode) -> Iterator[Batch]:
    """Yield every predicted token once, in stored order.

    A stream is read as a single row, and its state is carried from start to end.
    """
    if mode == "stream":
        yield from evaluation_batches(source, mode, 1)
        return
    for rows in chunks(source):
        yield from padded(rows, ROWS_AT_ONCE)
