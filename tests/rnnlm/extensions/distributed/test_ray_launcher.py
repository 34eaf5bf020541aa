"""Two workers on a local Ray cluster of two nodes give the same results as torchrun, even if one is killed."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import psutil
import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import DeviceError, EngineError, TrainingError
from rnnlm.extensions.distributed.ray_launcher import choose_gpu
from rnnlm.extensions.distributed.ray_worker import Lease
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed, plain_training
from tests.conftest import Chain, UntrackedRun, toy_pipeline_config, untracked
from tests.ray_cluster import ROOT, two_nodes, workers_that_run

PATIENCE_SECONDS = 400
ON_RAY = {"training.distributed.launcher": "ray"}
SETTINGS = {
    "training.epochs": 16,
    "training.batch_size": 8,
    "training.validation.evaluations": 4,
    "training.distributed.processes": 2,
}
# The steps at which a validation takes place. A checkpoint is written before each of them.
VALIDATION_STEPS = {152, 304, 456}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    pytest.importorskip("ray", reason='the extra "ray" is not installed')
    with two_nodes() as address, pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_ADDRESS", address)
        yield


@pytest.fixture(scope="module")
def dataset(chain_template: tuple[Home, Chain]) -> DatasetRecord:
    return DatasetRecord.model_validate(chain_template[1]["dataset"])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> PipelineConfig:
    return changed(toy_pipeline_config(tmp_path_factory.mktemp("corpus")), SETTINGS)


@pytest.fixture(scope="module")
def expected(config: PipelineConfig, dataset: DatasetRecord, tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """Return the run of torchrun's processes, which is the reference for Ray's results."""
    return run_training(Home(tmp_path_factory.mktemp("torchrun")), config, dataset, untracked)


class Watching(UntrackedRun):
    """A tracker that calls a function once after the first checkpoint, and ends a test that takes too long."""

    def __init__(self, home: Home, act: Callable[[], None] = lambda: None) -> None:
        self.home = home
        self.act = act
        self.acted = False
        self.deadline = time.monotonic() + PATIENCE_SECONDS
        self.workers: set[int] = set()

    def __call__(self) -> None:
        assert time.monotonic() < self.deadline
        self.workers |= {worker.pid for worker in ray_workers()}
        if checkpoint_steps(self.home) and not self.acted:
            self.acted = True
            self.act()


def ray_workers() -> list[psutil.Process]:
    return workers_that_run("RayTrainWorker")


def checkpoint_steps(home: Home) -> set[int]:
    return {int(path.parent.name.removeprefix("step-")) for path in home.runs.glob("*/checkpoints/step-*/COMPLETE")}


def history(run: RunRecord) -> dict[tuple[int, str], dict[str, float]]:
    lines = [json.loads(line) for line in (run.folder / "history.jsonl").read_text().splitlines()]
    return {(line["step"], line["kind"]): line["metrics"] for line in lines}


def check_that_the_results_are_equal(run: RunRecord, expected: RunRecord) -> None:
    """Assert that the results of two runs are equal up to rounding."""
    assert run.run_id == expected.run_id  # The run's id does not depend on the machine that trains the run.
    assert run.trained_tokens == expected.trained_tokens
    assert run.best_validation_perplexity == pytest.approx(expected.best_validation_perplexity, rel=1e-5)
    here, there = history(run), history(expected)
    assert here.keys() == there.keys()
    for key, metrics in here.items():
        for name in metrics.keys() & {"train_loss_nats", "validation_perplexity"}:
            assert metrics[name] == pytest.approx(there[key][name], rel=1e-5)


@pytest.mark.slow
def test_ray_train_gives_the_result_of_torchrun(
    cluster: None,
    config: PipelineConfig,
    dataset: DatasetRecord,
    expected: RunRecord,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rnnlm")
    watching = Watching(Home(tmp_path))
    run = run_training(watching.home, changed(config, ON_RAY), dataset, watching.open)
    assert len(watching.workers) == 2
    assert ("rnnlm.training.training_loop", "training: step 152 of 608") in {
        (record.name, record.getMessage().partition(",")[0]) for record in caplog.records
    }
    check_that_the_results_are_equal(run, expected)


@pytest.mark.slow
def test_the_workers_are_restarted_from_the_checkpoint_after_one_was_killed(
    cluster: None, config: PipelineConfig, dataset: DatasetRecord, expected: RunRecord, tmp_path: Path
) -> None:
    watching = Watching(Home(tmp_path), lambda: ray_workers()[-1].kill())
    run = run_training(watching.home, changed(config, ON_RAY), dataset, watching.open)
    assert watching.acted
    assert len(watching.workers) == 4
    check_that_the_results_are_equal(run, expected)


@pytest.mark.slow
def test_a_worker_that_is_killed_too_often_is_reported_in_two_lines(
    cluster: None, config: PipelineConfig, dataset: DatasetRecord, tmp_path: Path
) -> None:
    watching = Watching(Home(tmp_path), lambda: ray_workers()[-1].kill())
    with pytest.raises(TrainingError) as caught:
        run_training(
            watching.home, changed(config, ON_RAY | {"training.distributed.restarts": 0}), dataset, watching.open
        )
    first, second = str(caught.value).splitlines()
    assert first.startswith("training process ")
    assert first.endswith(" of 2 was killed or its node was lost, possibly out of memory;")
    assert second == "run again: training resumes from the last checkpoint"


@pytest.mark.slow
def test_our_own_errors_come_back_without_a_retry(
    cluster: None, config: PipelineConfig, dataset: DatasetRecord, tmp_path: Path
) -> None:
    watching = Watching(Home(tmp_path))
    with pytest.raises(DeviceError, match="^training.device=mps: "):
        run_training(watching.home, changed(config, ON_RAY | {"training.device": "mps"}), dataset, watching.open)
    assert len(watching.workers) == 2
    assert poll_until(lambda: not ray_workers(), PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_signal_stops_the_workers_after_a_checkpoint(
    cluster: None, config: PipelineConfig, dataset: DatasetRecord, expected: RunRecord, tmp_path: Path
) -> None:
    class InterruptingError(BaseException): ...

    def interrupted(number: int, frame: FrameType | None) -> None:
        raise InterruptingError

    watching = Watching(Home(tmp_path), lambda: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        with pytest.raises(InterruptingError):
            run_training(watching.home, changed(config, ON_RAY), dataset, watching.open)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert poll_until(lambda: not ray_workers(), PATIENCE_SECONDS)
    assert checkpoint_steps(watching.home) - VALIDATION_STEPS
    run = run_training(watching.home, config, dataset, untracked)  # Continue from Ray's checkpoint with torchrun.
    check_that_the_results_are_equal(run, expected)


DRIVER = """
import sys
from pathlib import Path
from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.training_run import run_training
from tests.conftest import untracked
home, config, dataset = map(Path, sys.argv[1:])
config = PipelineConfig.model_validate_json(config.read_text())
run_training(Home(home), config, DatasetRecord.model_validate_json(dataset.read_text()), untracked)
"""


@pytest.mark.slow
def test_no_worker_outlives_a_killed_driver(
    cluster: None, config: PipelineConfig, dataset: DatasetRecord, expected: RunRecord, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    (tmp_path / "config.json").write_text(changed(config, ON_RAY).model_dump_json())
    (tmp_path / "dataset.json").write_text(dataset.model_dump_json())
    paths = [str(home.root), str(tmp_path / "config.json"), str(tmp_path / "dataset.json")]
    command = [sys.executable, "-c", DRIVER, *paths]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}) as driver:
        assert poll_until(lambda: bool(checkpoint_steps(home)), PATIENCE_SECONDS, every_seconds=0.05)
        driver.kill()
    assert poll_until(lambda: not ray_workers(), PATIENCE_SECONDS)
    # One checkpoint was not written before a validation, but when the workers were stopped.
    assert checkpoint_steps(home) - VALIDATION_STEPS
    run = run_training(home, changed(config, ON_RAY), dataset, Watching(home).open)
    check_that_the_results_are_equal(run, expected)


@pytest.mark.slow
def test_an_address_where_no_cluster_is_is_reported(
    config: PipelineConfig, dataset: DatasetRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason='the extra "ray" is not installed')
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    watching = Watching(Home(tmp_path))
    with pytest.raises(EngineError, match="RAY_ADDRESS=127.0.0.1:9: no Ray cluster answers .no process listens"):
        run_training(watching.home, changed(config, ON_RAY), dataset, watching.open)


def test_the_newest_launch_holds_the_lease(tmp_path: Path) -> None:
    """A new launch takes the lease from an earlier launch, which can then not release the new launch's lease."""
    old, new = Lease(tmp_path / "lease", "old"), Lease(tmp_path / "lease", "new")
    assert not old.is_held()
    old.take()
    assert old.is_held()
    new.take()
    old.give_back()
    assert (old.is_held(), new.is_held()) == (False, True)
    new.give_back()
    assert not new.is_held()


@pytest.mark.parametrize(
    ("device", "cluster", "gpu", "warning"),
    [
        ("cpu", {"CPU": 8.0, "GPU": 2.0}, False, ""),
        ("auto", {"CPU": 8.0, "GPU": 2.0}, True, ""),
        ("auto", {"CPU": 8.0, "GPU": 1.0}, False, ""),
        ("cuda", {"CPU": 8.0}, True, "waiting until the Ray cluster has 2 GPUs; it has 0"),
        ("cpu", {"CPU": 1.0}, False, "waiting until the Ray cluster has 2 CPUs; it has 1"),
    ],
)
def test_workers_get_gpus_if_asked_or_available(
    device: str, cluster: dict[str, float], gpu: bool, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert choose_gpu(device, 2, cluster) == gpu
    assert warning in caplog.text
    assert bool(warning) == bool(caplog.records)


def test_ray_takes_no_nodes() -> None:
    settings = {"distributed.processes": 2, "distributed.nodes": 2, "distributed.rendezvous": "here:1"}
    with pytest.raises(ValueError, match="launcher=ray does not allow nodes or rendezvous"):
        plain_training(settings | {"distributed.launcher": "ray"})
