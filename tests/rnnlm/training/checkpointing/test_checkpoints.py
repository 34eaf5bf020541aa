"""Incomplete and damaged checkpoints are not used. Damage or a full disk loses at most the newest checkpoint."""

import json
import re
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnlm.config import PipelineConfig
from rnnlm.errors import HomeError
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import is_complete
from rnnlm.training.checkpointing.checkpoints import STATE, TENSORS, Checkpoints, pack, unpack
from rnnlm.training.process_group import ProcessGroup
from rnnlm.training.training_run import name_run
from tests.rnnlm.training.checkpointing.test_resuming import configured
from tests.rnnlm.training.trainer import Trainer

UNREADABLE = Path("/proc/self/mem")  # This file cannot be read. On Linux, reading it from the start fails with EIO.


def state(step: int) -> dict[str, Any]:
    return {
        "step": step,
        "weights": {"W": torch.full((3, 2), float(step)), "half": torch.ones(2, dtype=torch.bfloat16)},
        "moments": {0: {"mean": torch.zeros(2)}, 1: {}},
        "rates": (0.1, 1e-300, None, True, "linear"),
    }


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    """Write the checkpoints of steps 10 and 20, and return the Checkpoints object."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", 2, 1000.0)
    for step in (10, 20):
        assert checkpoints.write(step, state(step))
    return checkpoints


def test_a_state_comes_back_bit_by_bit() -> None:
    tensors: dict[str, torch.Tensor] = {}
    shared = torch.rand(4, 3)
    tree = {"a": [shared, {"b": shared.t(), 7: 0.1}], "empty": torch.zeros(0), "none": None}
    facts = json.loads(json.dumps(pack(tree, "state", tensors)))
    back = unpack(facts, tensors)
    assert torch.equal(back["a"][0], shared)
    assert torch.equal(back["a"][1]["b"], shared.t())
    assert (back["a"][1][7], back["none"], back["empty"].shape) == (0.1, None, (0,))
    # The tensor was copied, so a later step does not change the checkpoint.
    assert tensors["state.a.0"].data_ptr() != shared.data_ptr()


def test_the_newest_checkpoints_are_kept_and_the_last_is_read(checkpoints: Checkpoints) -> None:
    assert not checkpoints.due
    checkpoints.write(30, state(30))
    assert checkpoints.cost_seconds > 0.0
    assert checkpoints.steps() == [20, 30]
    read = checkpoints.load_newest()
    assert read is not None
    assert (read["step"], read["rates"]) == (30, [0.1, 1e-300, None, True, "linear"])
    assert torch.equal(read["weights"]["W"], state(30)["weights"]["W"])
    assert read["weights"]["half"].dtype == torch.bfloat16
    assert list(read["moments"]) == [0, 1]


def flip_bit(path: Path, share: float) -> None:
    """Flip a bit of the byte at the position share * size in the file."""
    data = bytearray(path.read_bytes())
    data[int(share * (len(data) - 1))] ^= 0x40
    path.write_bytes(data)


HARMS: dict[str, Callable[[Path], object]] = {
    **{f"bit flipped at {share:g}": partial(flip_bit, share=share) for share in (0.0, 0.01, 0.5, 0.75, 1.0)},
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "emptied": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", [TENSORS, STATE, "COMPLETE"])
def test_a_damaged_file_makes_training_use_the_checkpoint_before(
    checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture, harm: str, name: str
) -> None:
    HARMS[harm](checkpoints.path(20) / name)
    read = checkpoints.load_newest()
    assert read is not None
    assert read["step"] == 10
    assert "step-00000020: this checkpoint is not used" in caplog.text
    assert checkpoints.steps() == [10]
    assert (checkpoints.folder / "step-00000020.damaged").is_dir()  # The checkpoint is renamed, not deleted.


@pytest.mark.skipif(not UNREADABLE.exists(), reason="needs a file that cannot be read, even by root")
def test_a_read_error_leaves_every_checkpoint_where_it_is(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rnnlm.storage.disk_errors.FIRST_PAUSE_SECONDS", 0.0)
    (checkpoints.path(20) / TENSORS).unlink()
    (checkpoints.path(20) / TENSORS).symlink_to(UNREADABLE)
    with pytest.raises(HomeError, match="cannot be read"):
        checkpoints.load_newest()
    assert checkpoints.steps() == [10, 20]


def test_only_rank_0_renames_damaged_checkpoints(checkpoints: Checkpoints) -> None:
    class Waiting(ProcessGroup):
        def barrier(self) -> None:
            pass

    (checkpoints.path(20) / STATE).write_text("{}")
    others = Checkpoints(checkpoints.folder, 3, 1000.0, Waiting(rank=1, size=2))
    read = others.load_newest()
    assert read is not None
    assert (read["step"], checkpoints.steps()) == (10, [10, 20])


def test_without_a_good_checkpoint_training_starts_over_with_a_warning(
    checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (10, 20):
        (checkpoints.path(step) / STATE).write_text("{}")
    assert checkpoints.load_newest() is None
    assert "training starts over" in caplog.text
    assert checkpoints.load_newest() is None  # If there is no checkpoint, no warning is logged.
    assert caplog.text.count("training starts over") == 1


def test_a_partial_folder_of_a_killed_process_is_deleted(checkpoints: Checkpoints) -> None:
    partial = checkpoints.folder / ".step-00000025.partial"
    partial.mkdir()
    (partial / TENSORS).write_bytes(b"half")
    assert checkpoints.steps() == [10, 20]
    checkpoints.write(30, state(30))
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-00000020", "step-00000030"]


def test_a_full_disk_costs_only_the_new_checkpoint(checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # From now on, writing more than 256 bytes to a file fails.
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, before[1]))
    try:
        assert not checkpoints.write(30, state(30))
        assert not checkpoints.due  # After a failure, writing is not due at every step.
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "step-00000030: cannot be written" in caplog.text
    assert [path.name for path in sorted(checkpoints.folder.iterdir())] == ["step-00000010", "step-00000020"]
    assert checkpoints.write(31, state(31))  # Writing succeeds when the disk has space again.


@pytest.mark.long
def test_training_completes_where_no_checkpoint_can_be_written(
    home: Home, trainer: Trainer, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    config = configured(toy_config, {"training.epochs": 1})
    folder = home.runs / name_run(config, toy_dataset)
    folder.mkdir(parents=True)
    # A file with the name of the folder makes the write fail. A read-only folder would not stop the root user.
    (folder / "checkpoints").write_text("in the way")
    assert "cannot be written" in trainer.run(home, config, toy_dataset)
    assert is_complete(folder)


def test_a_checkpoint_waits_until_it_costs_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    checkpoints = Checkpoints(tmp_path, 1, every_seconds=120.0)
    assert checkpoints.due  # The first checkpoint is due immediately, because the time for writing one is unknown.
    checkpoints.cost_seconds = 0.25
    now += 24.9
    assert not checkpoints.due
    now += 0.2
    assert checkpoints.due  # Writing took 0.25 s, which is 1 % of the 25 s that have passed.
    checkpoints.cost_seconds = 60.0  # Simulate a large model on a slow disk.
    assert not checkpoints.due
    now += 95.0
    assert checkpoints.due  # 120 s have passed, which is the largest time between two checkpoints.


def test_another_format_is_not_read(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rnnlm.training.checkpointing.checkpoints.CHECKPOINT_FORMAT", 3)
    assert checkpoints.load_newest() is None


@pytest.mark.long
def test_global_generators_in_a_process_without_other_threads(trainer: Trainer) -> None:
    """Checkpoints restore the global generators in a process without other threads.

    In this process, threads of Prefect may draw from Python's generator at any time.
    """
    said = trainer.run_tests(Path(__file__).with_name("global_generator_checks.py"))
    assert re.search(r"^2 passed", said, re.MULTILINE), said
