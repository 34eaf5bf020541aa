"""What a state holds comes back, and nobody else draws: run by test_training_state.py in a process of its own."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.loop import Training, TrainingPlan
from rnnlm.training.regularizers import make_regularizers
from torch import Tensor

from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.checkpointing.checkpoints import Checkpoints, pack, unpack
from rnnlm.training.history import Event
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.schedules import Schedule
from rnnlm.training.seeding import preserve_random_states, random_states, seed_everything, set_random_states
from tests.configs import plain_model, plain_training

STEPS = 30


def fresh_state() -> TrainingState:
    seed_everything(0, deterministic=False)
    model = build_model(plain_model({"hidden_size": 8, "tie_embeddings": True}), 12, seed=0)
    model.embedding.sparse = True
    config = plain_training(
        {"optimizer.learning_rate": 0.02, "schedule.kind": "cosine", "averaging.kind": "exponential"}
    )
    optimizer = make_optimizer(model, config.optimizer)
    regularizers = make_regularizers(model, config, STEPS)
    return TrainingState(model, optimizer, Schedule(optimizer, config.schedule, STEPS), regularizers)


def batches() -> list[Batch]:
    """A stream of 2 lanes."""
    ids = torch.randint(4, 12, (2, STEPS * 5 + 1), generator=torch.Generator().manual_seed(1))
    windows = [ids[:, first : first + 6] for first in range(0, STEPS * 5, 5)]
    return [Batch(window[:, :-1], window[:, 1:], index > 0, 10) for index, window in enumerate(windows)]


def noisy_loss(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
    """It draws from every global generator."""
    noise = float(torch.rand(())) + random.random() + float(np.random.rand())
    return exact_cross_entropy(model, hidden + 0.01 * noise, targets)


def draw_from_all() -> list[float]:
    return [float(torch.rand(())), random.random(), random.gauss(0, 1), float(np.random.rand()), np.random.normal()]


def run(
    state: TrainingState,
    evaluations: int = 3,
    evaluate: Callable[[int], float] = lambda step: 5.0,
    report: Callable[[Event], None] = lambda event: None,
    checkpoints: Checkpoints | None = None,
) -> list[Tensor]:
    """The final weights."""
    steps = frozenset(STEPS * index // evaluations for index in range(1, evaluations))
    plan = TrainingPlan(plain_training({"optimizer.clip_norm": 1.0}), STEPS, steps, 10.0)
    feed = batches()
    Training(state, lambda first: feed[first:], noisy_loss, plan, evaluate, report, checkpoints).run()
    return [value.clone() for value in state.model.state_dict().values()]


def test_global_generators_come_back_through_json(tmp_path: Path) -> None:
    seed_everything(3, deterministic=False)
    draw_from_all()
    tensors: dict[str, Tensor] = {}
    saved = pack(random_states(), "random", tensors)
    expected = draw_from_all()
    set_random_states(unpack(saved, tensors))
    assert draw_from_all() == expected


def test_what_a_block_draws_is_forgotten() -> None:
    before = random_states()
    with pytest.raises(ValueError), preserve_random_states():  # noqa: PT011
        draw_from_all()
        raise ValueError
    set_before = draw_from_all()
    set_random_states(before)
    assert draw_from_all() == set_before


def test_what_is_logged_evaluated_or_kept_touches_nothing(tmp_path: Path) -> None:
    quiet = run(fresh_state(), evaluations=1)

    def evaluate(step: int) -> float:
        draw_from_all()
        torch.manual_seed(0)
        return 5.0

    loud = run(
        fresh_state(),
        evaluations=7,
        evaluate=evaluate,
        report=lambda event: random.seed(0),
        checkpoints=Checkpoints(tmp_path / "c", 2, 0.0),
    )
    assert all(map(torch.equal, quiet, loud))


class StopError(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 10, 11, 29])
def test_a_state_read_from_disk_continues_exactly(tmp_path: Path, stop_at: int) -> None:
    """Weights, sparse moments, schedule, carried state, generators, and the averaged weights."""
    whole = fresh_state()
    expected = run(whole)
    state = fresh_state()

    def stop(event: Event) -> None:
        if event.step > stop_at:
            raise StopError

    with pytest.raises(StopError):
        run(state, report=stop, checkpoints=Checkpoints(tmp_path / "c", 50, 0.0))
    checkpoints = Checkpoints(tmp_path / "c", 50, 0.0)
    saved = checkpoints.load_newest()
    assert saved is not None
    assert saved["step"] == stop_at
    again = fresh_state()
    draw_from_all()
    again.load_state_dict(saved)
    assert again.model.head.weight is again.model.embedding.weight  # tied as before
    assert all(map(torch.equal, run(again, checkpoints=checkpoints), expected))
    assert whole.regularizers.averaging is not None
    assert again.regularizers.averaging is not None
    averaged, averaged_again = whole.regularizers.averaging.state_dict(), again.regularizers.averaging.state_dict()
    assert averaged["updates"] == 2
    assert all(torch.equal(value, averaged_again[name]) for name, value in averaged.items())
    assert again.tokens == whole.tokens == 10 * STEPS
