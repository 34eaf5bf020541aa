"""Check that checkpoints restore the global random generators. test_checkpoints.py runs this file as a process."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.training.checkpointing.checkpoints import Checkpoints, pack, unpack
from rnnlm.training.seeding import preserve_random_states, random_states, seed_everything, set_random_states
from rnnlm.training.training_loop import TrainingLoop
from tests.rnnlm.training.small_training_loop import make_loop, network

STEPS = 30


def fresh_loop(folder: Path | None = None) -> TrainingLoop:
    seed_everything(0, deterministic=False)
    ids = torch.randint(4, 12, (2, STEPS * 5 + 1), generator=torch.Generator().manual_seed(1))
    windows = [ids[:, first : first + 6] for first in range(0, STEPS * 5, 5)]
    batches = [Batch(window[:, :-1], window[:, 1:], index > 0, 10) for index, window in enumerate(windows)]
    checkpoints = None if folder is None else Checkpoints(folder, 50, 0.0)
    return make_loop(network(hidden_size=8, tie_embeddings=True), batches, loss=noisy_loss, checkpoints=checkpoints)


def noisy_loss(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
    """Return a loss to which random numbers of every global generator are added."""
    noise = float(torch.rand(())) + random.random() + float(np.random.rand())
    return exact_cross_entropy(model, hidden + 0.01 * noise, targets)


def draw_from_all() -> list[float]:
    return [float(torch.rand(())), random.random(), random.gauss(0, 1), float(np.random.rand()), np.random.normal()]


def weights(loop: TrainingLoop) -> list[Tensor]:
    loop.run()
    return list(loop.model.state_dict().values())


def test_global_generators_survive_json() -> None:
    seed_everything(3, deterministic=False)
    draw_from_all()
    tensors: dict[str, Tensor] = {}
    saved = pack(random_states(), "random", tensors)
    with pytest.raises(ValueError), preserve_random_states():  # noqa: PT011
        draw_from_all()
        raise ValueError
    expected = draw_from_all()
    set_random_states(unpack(saved, tensors))
    assert draw_from_all() == expected


def test_validation_measurements_and_checkpoints_change_no_random_state(tmp_path: Path) -> None:
    quiet = weights(fresh_loop())
    loud = fresh_loop(tmp_path / "c")

    def validate(step: int) -> float:
        draw_from_all()
        torch.manual_seed(0)
        return 5.0

    loud.validate, loud.record = validate, lambda measurement: random.seed(0)
    loud.validation_steps = frozenset(range(4, STEPS, 4))
    assert all(map(torch.equal, quiet, weights(loud)))
