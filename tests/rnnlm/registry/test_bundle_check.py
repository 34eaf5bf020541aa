"""The error that is raised if a bundle check fails tells the user what to do.

Every test that registers a model tests successful checks.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from rnnlm.errors import ModelError
from rnnlm.registry import bundle_check


@pytest.mark.parametrize(
    ("script", "seconds", "message"),
    [
        ("import time; time.sleep(60)", 0.2, "took longer than 0.2 s"),
        ("import os; os.kill(os.getpid(), 9)", 60, "exit code -9.\nRun the same command again"),
        ("import rnnlm", 60, "The module of a layer may import torch"),
    ],
)
def test_a_failed_check_says_what_to_do(
    script: str, seconds: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'import sys; sys.modules["rnnlm"] = None; '
    monkeypatch.setattr(bundle_check, "SCRIPT", refuse + script)
    monkeypatch.setattr(bundle_check, "TIMEOUT_SECONDS", seconds)
    with pytest.raises(ModelError) as caught:
        bundle_check.check_bundle(tmp_path)
    assert message in str(caught.value)
    assert "the trained model is kept" in str(caught.value)


# This program exits with the folder that it reads as its message.
READS_FOLDER = "import sys; sys.exit(sys.stdin.buffer.read().decode())"


@pytest.mark.parametrize("killed", [False, True])
def test_a_process_that_was_started_early_makes_the_check(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process checks the bundle if the process that was started early has been killed."""
    monkeypatch.setattr(bundle_check, "SCRIPT", READS_FOLDER)
    monkeypatch.setattr(bundle_check.CheckProcess, "waiting", None)
    bundle_check.CheckProcess.start_early()
    bundle_check.CheckProcess.start_early()
    early = bundle_check.CheckProcess.waiting
    assert early is not None
    assert early.process.poll() is None
    if killed:
        early.stop()
    with pytest.raises(ModelError, match=re.escape(str(tmp_path))):
        bundle_check.check_bundle(tmp_path)
    assert bundle_check.CheckProcess.waiting is None
    assert early.process.poll() == (-signal.SIGKILL if killed else 1)


def test_a_waiting_process_ends_with_the_process_that_started_it() -> None:
    process = bundle_check.CheckProcess()
    assert process.process.stdin is not None
    # Simulate the death of the launcher: the operating system would then close this pipe.
    process.process.stdin.close()
    assert process.process.wait(60) == 0


def test_folders_of_any_name_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_check, "CHECKED", set())
    monkeypatch.setattr(bundle_check, "SCRIPT", "import sys, os; sys.exit(not os.path.isdir(sys.stdin.buffer.read()))")
    for name in ("two words", "line\nbreak", "größe", os.fsdecode(b"not\xffutf-8")):
        (tmp_path / name / "artifacts").mkdir(parents=True)
        (tmp_path / name / "artifacts" / "file").write_text(str(len(name)))
        bundle_check.check_bundle(tmp_path / name)
