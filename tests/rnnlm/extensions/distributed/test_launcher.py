"""Two real processes on a loopback address train like one process, restart after a kill, report errors, and end.

A launch takes seconds, because three processes import torch. Rare cases are therefore only part of `make test-slow`.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError, TrainingError
from rnnlm.extensions.distributed.launcher import Launch, run_processes
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import is_complete
from rnnlm.training.training_run import run_training
from tests.configs import changed, plain_training
from tests.conftest import UntrackedRun

RANKS = Path(__file__).parent / "rank_programs.py"


def launched(folder: Path, what: str, restarts: int = 0) -> Launch:
    return Launch((str(RANKS), what, str(folder)), folder, processes=2, restarts=restarts)


def pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("pid-*")]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_processes_of_one_machine_talk_over_its_loopback_interface(tmp_path: Path) -> None:
    name = launched(tmp_path, "train").environment(tmp_path)["GLOO_SOCKET_IFNAME"]
    assert {address.address for address in psutil.net_if_addrs()[name]} >= {"127.0.0.1"}
    assert (sys.platform != "linux") or name == "lo"


def all_end(processes: list[int], seconds: float = 20) -> bool:
    return poll_until(lambda: not any(map(is_running, processes)), seconds, every_seconds=0.1)


@pytest.mark.slow
def test_processes_reach_each_other_on_loopback_only(tmp_path: Path) -> None:
    """The processes listen only on loopback, because a pickle from another machine could run arbitrary code."""
    run_processes(launched(tmp_path, "talk"), lambda: None)
    assert all_end(pids(tmp_path))
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert [found["largest"] for found in ranks] == [7, 7]
    assert [found["rows"] for found in ranks] == [[0, 1, 2, 3, 4]] * 2
    assert [found["is_main"] for found in ranks] == [True, False]
    # gloo accepts connections on these addresses.
    assert {address for found in ranks for address in found["listening"]} == {"127.0.0.1"}


class Following(UntrackedRun):
    """A tracker that, like the real tracker, does not run in the process that writes history.jsonl.

    If `kill` is true, it kills a process of the run after the first checkpoint.
    """

    def __init__(self, home: Home, kill: bool = False) -> None:
        self.home, self.kill, self.killed = home, kill, False
        self.lines: list[int] = []

    def __call__(self) -> None:
        self.lines += [len(path.read_text().splitlines()) for path in self.home.runs.glob("*/history.jsonl")]
        if self.kill and not self.killed and list(self.home.runs.glob("*/checkpoints/step-*/COMPLETE")):
            self.killed = True
            os.kill(workers_of(os.getpid())[-1], signal.SIGKILL)


def workers_of(pid: int) -> list[int]:
    """Return the ids of the worker processes below `pid`, without those of torchrun."""
    commands = {child.pid: " ".join(child.cmdline()) for child in psutil.Process(pid).children(recursive=True)}
    worker, torchrun = "rnnlm.extensions.distributed.worker", "torch.distributed.run"
    return [child for child, command in commands.items() if worker in command and torchrun not in command]


SETTINGS = {
    "training.epochs": 4,
    "training.batch_size": 8,
    "training.validation.evaluations": 4,
    "training.checkpoints.every_seconds": 0.2,
}


@pytest.mark.parametrize(
    "kill", [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)]
)
def test_two_processes_reach_the_perplexity_of_one(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, kill: bool
) -> None:
    """Two processes reach the perplexity of one up to rounding, even if a process is killed and restarted."""
    config = changed(toy_config, SETTINGS)
    one = run_training(home, config, toy_dataset, Following(home).open)
    tracker = Following(home, kill)
    two = run_training(home, changed(config, {"training.distributed.processes": 2}), toy_dataset, tracker.open)
    assert is_complete(two.folder)
    assert not (two.folder / "checkpoints").exists()
    assert two.run_id != one.run_id
    assert two.trained_tokens == one.trained_tokens
    assert two.best_validation_perplexity == pytest.approx(one.best_validation_perplexity, rel=0.01)
    histories = [
        {
            (line["step"], line["kind"]): line["metrics"]
            for line in map(json.loads, (run.folder / "history.jsonl").read_text().splitlines())
        }
        for run in (one, two)
    ]
    assert histories[0].keys() == histories[1].keys()
    for key, metrics in histories[0].items():
        for name in metrics.keys() & {"train_loss_nats", "validation_perplexity"}:
            assert metrics[name] == pytest.approx(histories[1][key][name], rel=0.01)
    assert max(tracker.lines) > 0
    assert tracker.killed == kill
    assert not workers_of(os.getpid())


@pytest.mark.long
def test_rnnlm_errors_are_raised_without_a_restart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="^training.seed: expected another seed$"):
        run_processes(launched(tmp_path, "refuse", restarts=3), lambda: None)
    assert all_end(pids(tmp_path))
    # Each process started at most once. One of the two may have been stopped before its start.
    starts = [path.read_text() for path in tmp_path.glob("starts-*")]
    assert set(map(len, starts)) == {1}


@pytest.mark.slow
def test_other_errors_are_reported_in_three_lines_after_the_restarts(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        run_processes(launched(tmp_path, "stumble", restarts=1), lambda: None)
    lines = str(caught.value).splitlines()
    assert lines[0] == "training process 1 failed: ZeroDivisionError: division by zero;"
    assert lines[1].startswith("restarts did not help (training.distributed.restarts=1); run again")
    assert len(lines) <= 3
    assert (tmp_path / "starts-1").read_text() == "xx"
    assert all_end(pids(tmp_path))


@pytest.mark.slow
def test_a_process_killed_too_often_is_reported_in_two_lines(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        run_processes(launched(tmp_path, "die"), lambda: None)
    lines = str(caught.value).splitlines()
    assert lines[0] == "training process 1 of 2 was killed (SIGKILL), possibly out of memory;"
    assert lines[1] == "run again: training resumes from the last checkpoint"
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"batch_size": 2, "distributed.processes": 3},
            "batch_size 2 must be at least training.distributed.processes 3",
        ),
        ({"batch_size": 32, "distributed.processes": 3, "accumulation": 11}, "accumulation 11 must be at most the 10"),
        (
            {"distributed.processes": 4, "distributed.nodes": 3, "distributed.rendezvous": "here:1"},
            "processes 4 must be a multiple of nodes",
        ),
        (
            {"distributed.processes": 4, "distributed.nodes": 2},
            "nodes above 1 and rendezvous=host:port must be set together",
        ),
    ],
)
def test_processes_without_rows_and_uneven_nodes_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        plain_training(settings)


LAUNCHER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from rnnlm.extensions.distributed.launcher import Launch, run_processes
run_processes(Launch((sys.argv[2], "sleep", sys.argv[3]), Path(sys.argv[3]), processes=2, restarts=2), lambda: None)
"""


@pytest.mark.slow
def test_nothing_outlives_a_launcher_that_is_killed(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[4])
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, root, str(RANKS), str(tmp_path)])
    assert poll_until(lambda: len(pids(tmp_path)) >= 2, 60, every_seconds=0.1)
    processes = [*pids(tmp_path), *map(int, (tmp_path / "torchrun").read_text().split())]
    launcher.kill()
    launcher.wait()
    assert len(processes) == 3
    assert all_end(processes)


@pytest.mark.long
def test_stopping_the_launch_stops_the_processes(tmp_path: Path) -> None:
    """The processes get SIGTERM and time to write a checkpoint if `poll` raises, as for a cancelled flow run."""

    class CancelledError(BaseException): ...

    def watch() -> None:
        if len(pids(tmp_path)) == 2:
            raise CancelledError

    with pytest.raises(CancelledError):
        run_processes(launched(tmp_path, "sleep"), watch)
    assert not any(map(is_running, pids(tmp_path)))
    assert {path.name for path in tmp_path.glob("terminated-*")} == {"terminated-0", "terminated-1"}
