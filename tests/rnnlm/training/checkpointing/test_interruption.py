"""A signal stops training after the current step and a checkpoint.

The signal is then passed to the handler that was installed before training.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.checkpointing.interruption import InterruptedTraining, Interruption, defer_signals
from rnnlm.training.training_run import name_run
from tests.rnnlm.training.checkpointing.test_resuming import alive, configured, result
from tests.rnnlm.training.trainer import Trainer


@contextmanager
def handled(number: int, handler: Any) -> Iterator[None]:
    """Install `handler` for the signal inside the context."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.fixture(autouse=True)
def python_handles_interrupts() -> Iterator[None]:
    """Let Python handle SIGINT as in a terminal. In a shell's background job, Python would ignore the signal."""
    with handled(signal.SIGINT, signal.default_int_handler):
        yield


def test_a_deferred_signal_is_delivered_after_the_loop() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), defer_signals() as interruption:
        with interruption.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("step")
            assert interruption.received == signal.SIGINT
            done.append("checkpoint")
            interruption.raise_if_received()
        done.append("never")
    assert done == ["step", "checkpoint"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_of_another_program_gets_its_signal() -> None:
    """The handler of another program is called, too. Like Prefect's handler, it raises an exception."""

    class TerminationSignal(BaseException):
        pass

    def handler(number: int, frame: object) -> None:
        raise TerminationSignal

    with handled(signal.SIGTERM, handler):
        with pytest.raises(TerminationSignal), defer_signals() as interruption, interruption.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            interruption.raise_if_received()
        assert signal.getsignal(signal.SIGTERM) is handler


def test_a_second_signal_and_one_during_validation_are_delivered_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), defer_signals() as interruption, interruption.deferred():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    with (
        pytest.raises(KeyboardInterrupt),
        defer_signals() as interruption,
        interruption.deferred(),
        interruption.deferred(False),
    ):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_repeated_alarm_waits_for_the_checkpoint() -> None:
    """A repeated SIGALRM does not end a step before the step's checkpoint.

    A time limit repeats its signal, possibly during a long step.
    """
    done = []
    with (
        handled(signal.SIGALRM, lambda number, frame: done.append("stopped")),
        pytest.raises(InterruptedTraining),
        defer_signals() as interruption,
        interruption.deferred(),
    ):
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        done.append("checkpoint")
        interruption.raise_if_received()
    assert done == ["checkpoint", "stopped"]


def test_an_ignored_signal_stays_ignored() -> None:
    with handled(signal.SIGINT, signal.SIG_IGN), defer_signals() as interruption, interruption.deferred():
        os.kill(os.getpid(), signal.SIGINT)
        interruption.raise_if_received()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
@pytest.mark.long
def test_a_signal_to_a_real_process_loses_no_step(
    home: Home, trainer: Trainer, toy_config: PipelineConfig, toy_dataset: DatasetRecord, number: int, code: int
) -> None:
    config = configured(toy_config, {"training.checkpoints.every_seconds": 1000.0, "training.loss.kind": "sampled"})
    trainer.run(home, config, toy_dataset)
    folder = home.runs / name_run(config, toy_dataset)
    expected = result(folder)
    (folder / "COMPLETE").unlink()
    (folder / "history.jsonl").unlink()
    child = trainer.start(home, config, toy_dataset)
    while alive(child) and trained_steps(folder) < 20:
        time.sleep(0.001)
    os.kill(child, number)
    assert trainer.wait() == code, trainer.log.read_text()
    steps = trained_steps(folder)
    assert 20 <= steps < 120
    assert sorted((folder / "checkpoints").iterdir())[-1].name == f"step-{steps:08d}"
    assert f"resumes from step {steps} of 120" in trainer.run(home, config, toy_dataset)
    assert result(folder) == expected


def trained_steps(folder: Path) -> int:
    """Return the last step in history.jsonl, or 0 if the file does not exist."""
    try:
        lines = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return max((line["step"] for line in whole), default=0)


def test_no_signal_is_deferred_in_another_thread() -> None:
    seen: list[Interruption] = []

    def work() -> None:
        with defer_signals() as interruption:
            seen.append(interruption)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[0].received is None
