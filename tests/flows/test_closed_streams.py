"""Closed standard streams and paths that cannot be written end in a sentence, never in a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RNNLM = [sys.executable, "-c", "from flows.command_line import console_entry; console_entry()"]


def run(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A line of the shell, in which $RNNLM is the command."""
    environment = {**os.environ, "RNNLM_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = f"rnnlm() {{ '{sys.executable}' -c '{RNNLM[2]}' \"$@\"; }}; {line}"
    return subprocess.run(["bash", "-c", command], env=environment, cwd=home.parent, capture_output=True, text=True)


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- <&-"])
@pytest.mark.parametrize("command", ["models", "tokenize", "describe nothing"])
def test_closed_streams_end_in_a_sentence(tmp_path: Path, command: str, closed: str) -> None:
    done = run(f"rnnlm {command} {closed}", tmp_path / "home")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)
    if ">" in closed:
        assert "standard output is closed" in done.stderr


@pytest.mark.long
def test_a_system_s_refusal_is_a_sentence(tmp_path: Path) -> None:
    """A file where a folder must be made."""
    (tmp_path / "file").touch()
    for line in ("rnnlm backup file/below", "RNNLM_HOME=$PWD/file/below rnnlm models"):
        done = run(line, tmp_path / "home")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) <= 3
