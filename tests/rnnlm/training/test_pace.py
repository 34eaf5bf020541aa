"""Training takes the requested minutes, even if the machine's speed changes after its measurement."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rnnlm.config.presets import build_config
from rnnlm.sequences.batches import Batch
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training import speed_meter, training_speed
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.interruption import InterruptedTraining
from rnnlm.training.job import Job
from rnnlm.training.pace import Pace, pace_of
from rnnlm.training.time_budget import fit_to_minutes
from rnnlm.training.training_loop import TrainingLoop
from tests.rnnlm.training.small_training_loop import batch, make_loop, network

STEPS = 120  # The planned number of steps.
SECONDS = 60.0  # The requested time in seconds. The steps may take 57 of them.
VALIDATION_SECONDS = 0.6  # At the measured speed, each of the three validations takes this many seconds.
SETTINGS = {"schedule.kind": "linear", "validation.evaluations": 3, "averaging.kind": "mean"}
BATCHES = [batch([2, 4, 5, 6, 3 + number % 7]) for number in range(1_000)]


class Machine:
    """A clock that only training and validation advance.

    `slowness` is the time of a step divided by its time at the measured speed.
    """

    def __init__(self, slowness: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.slowness = 0.0, slowness
        monkeypatch.setattr(speed_meter.time, "perf_counter", lambda: self.now)

    def feed(self, first: int) -> Iterator[Batch]:
        for number, found in enumerate(islice(BATCHES, first, None), first):
            # The first step takes longer, because libraries initialize themselves. The times of the other steps vary.
            noise = 2 if number == 0 else 0.9 + 0.05 * (number % 5)
            self.now += 0.95 * SECONDS / STEPS * self.slowness * noise
            yield found

    def validate(self, step: int) -> float:
        self.now += VALIDATION_SECONDS * self.slowness
        return 5.0

    def loop(self, pace: Pace | None = None, folder: Path | None = None) -> TrainingLoop:
        checkpoints = None if folder is None else Checkpoints(folder, 2, 1e9)
        loop = make_loop(network(hidden_size=8), BATCHES[:STEPS], SETTINGS, checkpoints=checkpoints, pace=pace)
        loop.feed, loop.validate = self.feed, self.validate
        loop.set_length(STEPS)
        return loop


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use a single thread, because a second thread would slow down such small steps."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def paced(most_steps: int = 900) -> Pace:
    return Pace(0.95 * SECONDS, STEPS, most_steps)


@pytest.mark.parametrize("slowness", [0.5, 0.8, 0.94, 1.0, 1.06, 1.3, 2.0])
def test_a_training_takes_its_minutes_however_fast_the_machine_is(
    slowness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(slowness, monkeypatch)
    loop = machine.loop(paced())
    loop.run()
    assert 0.9 * SECONDS <= machine.now <= 1.05 * SECONDS
    assert loop.step == loop.total_steps
    # The learning rate is almost 0, so the schedule ends together with training.
    assert loop.optimizer.param_groups[0]["lr"] < 0.02 * 0.01
    assert loop.averaging is not None
    assert loop.averaging.start_step == loop.total_steps // 2


def weights_of(loop: TrainingLoop) -> dict[str, Tensor]:
    return loop.run()[0]


@pytest.mark.parametrize("slowness", [0.97, 1.0, 1.03])
def test_the_bits_are_the_same_when_nothing_has_changed(slowness: float, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(slowness, monkeypatch)
    expected, found = weights_of(machine.loop()), weights_of(machine.loop(paced()))
    assert all(torch.equal(value, found[name]) for name, value in expected.items())


def test_no_second_plan_reads_more_than_would_overfit(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Machine(0.25, monkeypatch).loop(paced(most_steps=150))
    loop.run()
    assert loop.step == 150


@pytest.mark.long
# Training stops either before or after its length is planned for the second time.
@pytest.mark.parametrize("stopped_at", [3, 30])
def test_a_resumed_training_keeps_its_plan(stopped_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = weights_of(Machine(0.5, monkeypatch).loop(paced()))
    machine = Machine(0.5, monkeypatch)
    loop = machine.loop(paced(), tmp_path)

    def stopping(first: int) -> Iterator[Batch]:
        for found in machine.feed(first):
            loop.interruption.received = 15 if loop.step + 1 == stopped_at else None
            yield found

    loop.feed = stopping
    with pytest.raises(InterruptedTraining):
        loop.run()
    planned = loop.total_steps
    resumed = Machine(0.5 if stopped_at == 3 else 3.0, monkeypatch).loop(paced(), tmp_path)
    resumed.resume()
    found = weights_of(resumed)
    if stopped_at == 30:
        assert resumed.total_steps == planned > 1.5 * STEPS
        assert all(torch.equal(value, found[name]) for name, value in expected.items())
    assert 1.5 * STEPS < resumed.total_steps < 2.5 * STEPS


@pytest.mark.parametrize(
    ("settings", "is_paced"),
    [
        ([], True),
        (["training.minutes=0.5"], True),
        (["training.epochs=2"], False),
        (["training.maximum_tokens=500"], False),
        (["training.epochs=2", "training.maximum_tokens=500"], False),
        (["training.minutes=null"], False),
    ],
)
def test_only_a_length_that_was_chosen_for_minutes_is_planned_again(
    settings: list[str],
    is_paced: bool,
    home: Home,
    toy_dataset: DatasetRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_speed, "measured_speed", lambda config, dataset, seconds: 1e4)
    config = fit_to_minutes(home, build_config("default", settings), toy_dataset)
    job = Job(
        folder=tmp_path,
        model=config.model,
        training=config.training,
        dataset=toy_dataset,
        validation_batch_size=8,
        log_every_seconds=10,
    )
    pace = pace_of(job, 100, 10)
    assert (pace is not None) == is_paced
    # A run that starts from another model has a fixed length.
    assert pace_of(job.model_copy(update={"start": tmp_path}), 100, 10) is None
    if pace is not None:
        assert pace.seconds == 0.95 * 60 * (config.training.minutes or 0)
        assert 100 <= pace.most_steps <= 400
