"""Runs that continue with a different number of processes. test_resizing.py runs this file in a forked process."""

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

# Setting the seed imports this module, which takes seconds. It is imported here once, before the ranks are forked.
import torch._inductor

from rnnlm.losses.loss import Loss, exact_cross_entropy
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.segmentation import Mode, TokenRows, rows_from_lists
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.interruption import InterruptedTraining, Interruption
from rnnlm.training.job import STORE
from rnnlm.training.optimizer_step import MicroBatch, Step, Updater
from rnnlm.training.process_group import ProcessGroup, join_process_group
from rnnlm.training.seeding import seed_everything
from rnnlm.training.training_loop import TrainingLoop
from tests.configs import new_model, plain_training

VOCABULARY, ROWS, WINDOW = 40, 7, 5  # With 4 processes, the 7 rows are divided into 2, 2, 2 and 1.
STEPS, EPOCHS = 14, 3
STOP, CHECKPOINT, KILL = 6, 4, 6  # The numbers of steps after which the run stops, is saved, or is killed.
INTERRUPTED = 128 + signal.SIGTERM  # The exit code of a process that SIGTERM interrupts.
SETTINGS = {
    "batch_size": ROWS,
    "window_length": WINDOW,
    "epochs": EPOCHS,
    "optimizer.learning_rate": 0.01,
    "optimizer.clip_norm": 0.5,
    "schedule.kind": "cosine",
    "averaging.kind": "exponential",
}
MASKED = {f"dropout.{name}": 0.3 for name in ("words", "inputs", "layers", "outputs", "recurrent")} | {
    # Each of 4 processes has at most two rows of a batch. The single row of the last process cannot be divided further.
    "accumulation": 2
}


@dataclass(frozen=True)
class Case:
    mode: Mode
    sampled: bool = False
    masked: bool = False

    def text(self) -> TokenRows:
        """Return a stream of 8 windows, or enough sentences for 9 batches.

        The last batch has 3 rows, so one of 4 processes has none.
        """
        draw = np.random.default_rng(0)
        if self.mode == "stream":
            tokens = draw.integers(3, VOCABULARY, 301).tolist()
            return rows_from_lists([tokens[first : first + 21] for first in range(0, 300, 20)])
        return rows_from_lists([draw.integers(3, VOCABULARY, length).tolist() for length in draw.integers(2, 9, 59)])

    def loss(self) -> Loss:
        if self.sampled:
            return SampledCrossEntropy(np.r_[[0, 0, 0], np.ones(VOCABULARY - 3)], 12, torch.float64)
        return exact_cross_entropy


CASES = {
    "stream": Case("stream"),
    "sentences": Case("sentence"),
    "sampled": Case("stream", sampled=True),
    "masked": Case("stream", masked=True),
    "sampled and masked": Case("sentence", sampled=True, masked=True),
}


def train(case: Case, folder: Path, process_group: ProcessGroup, stop: str, processes_at_start: int | None) -> None:
    """Train in float64, from the newest checkpoint in the folder if there is one.

    `stop` is "signal" or "kill" to end training early. At the end, rank 0 writes the loss, gradient norm, state and
    weights of each step.
    """
    seed_everything(0, deterministic=False)
    process_group = replace(process_group, size_at_start=processes_at_start)
    settings: dict[str, Any] = dict(SETTINGS)
    settings |= {"loss.kind": "sampled"} if case.sampled else {}
    config = plain_training(settings | (MASKED if case.masked else {}))
    model = new_model(VOCABULARY, 8, layers=2, residual=True, tie_embeddings=True).double()
    interruption = Interruption()

    def feed(first: int) -> TrainingBatches:
        rank, size = process_group.rank, process_group.size
        return TrainingBatches(case.text(), case.mode, ROWS, WINDOW, 0, range(EPOCHS), rank, size, first)

    loop = TrainingLoop(
        model,
        config,
        case.loss(),
        feed,
        lambda step: 5.0,
        lambda measurement: None,
        STEPS,
        Checkpoints(folder, 3, 1e9, process_group),
        interruption,
        process_group,
    )
    loop.validation_steps = frozenset({CHECKPOINT})
    for cell in model.stack.cells:
        cell.precision = None  # Compute in float64, like the weights.
    steps: dict[str, Any] = {}

    class Watched(Updater):
        def __call__(self, micro_batches: list[MicroBatch]) -> Step:
            step = super().__call__(micro_batches)
            done = loop.step + 1
            steps[f"{done} loss"], steps[f"{done} norm"] = step.loss.numpy(), step.norm.numpy()
            steps[f"{done} carried"] = process_group.gather_rows(step.state).numpy()
            steps[f"{done} weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()
            if stop == "kill" and done == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            if stop == "signal" and done == STOP and process_group.rank == process_group.size - 1:
                interruption.received = signal.SIGTERM
            return step

    loop.updater = Watched(**vars(loop.updater))
    loop.resume()
    loop.run()
    if process_group.is_main:
        changes = [(change.step, change.processes) for change in loop.process_changes.changes]
        assert loop.averaging is not None
        averaged = loop.averaging.state_dict().items()
        steps |= {f"averaged {name}": value.numpy() for name, value in averaged}
        np.savez(folder.with_suffix(".npz"), changes=np.array(changes), trained=loop.tokens, **steps)


def run_ranks(case: Case, folder: Path, size: int, stop: str = "", processes_at_start: int | None = None) -> list[int]:
    """Train in forked processes, and return their exit codes, which are negative for signals."""
    store = folder.parent / f"store-{len(list(folder.parent.glob('store-*')))}-0"
    store.touch()
    children = []
    for rank in range(size):
        child = os.fork()
        if child:
            children.append(child)
            continue
        try:
            torch.set_num_threads(1)
            own = {"WORLD_SIZE": size, "RANK": rank, STORE: str(store).removesuffix("-0")}
            os.environ |= {name: str(value) for name, value in own.items()}
            os.environ |= {"TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo"}
            with join_process_group(torch.device("cpu")) as process_group:
                train(case, folder, process_group, stop, processes_at_start)
            os._exit(0)
        except InterruptedTraining:
            # The process exits without a teardown, because deleting the group's objects may wait forever for gloo's
            # threads.
            os._exit(INTERRUPTED)
        except BaseException:
            if stop != "kill":  # After a kill, the other processes fail as well, so their errors are not shown.
                traceback.print_exc()
            os._exit(1)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


Results = dict[str, np.ndarray]


def results(folder: Path) -> Results:
    with np.load(folder.with_suffix(".npz")) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Results]:
    """Return a function that trains with a given number of processes without interruption, and returns the results."""
    found: dict[tuple[str, int], Results] = {}

    def run(name: str, size: int) -> Results:
        if (name, size) not in found:
            folder = tmp_path_factory.mktemp("whole") / "checkpoints"
            assert run_ranks(CASES[name], folder, size) == [0] * size
            found[name, size] = results(folder)
        return found[name, size]

    return run


def check_rest(again: Results, whole: Results, first: int, tolerance: float) -> None:
    """Assert that loss, norm, carried state and weights are equal after every step from `first` on.

    The averaged weights must be equal, too.
    """
    done = {str(step) for step in range(first + 1, STEPS + 1)} | {"averaged", "trained"}
    compared = {name for name in whole if name.partition(" ")[0] in done}
    assert len(compared) > 4 * (STEPS - first)
    for name in compared:
        np.testing.assert_allclose(again[name], whole[name], rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 1), (4, 3), (1, 2)])
def test_an_interrupted_run_continues_with_another_number_of_processes(
    tmp_path: Path, uninterrupted: Callable[[str, int], Results], name: str, before: int, after: int
) -> None:
    folder = tmp_path / "checkpoints"
    assert set(run_ranks(CASES[name], folder, before, "signal")) == {INTERRUPTED}
    assert run_ranks(CASES[name], folder, after, processes_at_start=before) == [0] * after
    again = results(folder)
    assert f"{STOP} loss" not in again  # The resumed run did not train the earlier steps again.
    check_rest(again, uninterrupted(name, before), STOP, 1e-10)
    assert again["changes"].tolist() == [[STOP, after]]


def test_a_killed_run_continues_with_fewer_processes_twice(
    tmp_path: Path, uninterrupted: Callable[[str, int], Results]
) -> None:
    """A run of 4 processes that is killed, continued with 2, stopped and continued with 1, gives the same results."""
    folder = tmp_path / "checkpoints"
    assert -signal.SIGKILL in run_ranks(CASES["stream"], folder, 4, "kill")
    assert set(run_ranks(CASES["stream"], folder, 2, "signal", 4)) == {INTERRUPTED}
    assert run_ranks(CASES["stream"], folder, 1, processes_at_start=4) == [0]
    again = results(folder)
    check_rest(again, uninterrupted("stream", 4), STOP, 1e-10)
    assert again["changes"].tolist() == [[CHECKPOINT, 2], [STOP, 1]]
