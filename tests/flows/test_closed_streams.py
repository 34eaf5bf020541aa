"""Closed standard streams, unwritable paths and full disks lead to an error message, never to a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

ROOT = Path(__file__).resolve().parents[2]
RNNLM = [sys.executable, "-c", "from flows.command_line import console_entry; console_entry()"]


def run(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command line, in which `rnnlm` is this project's command."""
    environment = {**os.environ, "RNNLM_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = f"rnnlm() {{ '{sys.executable}' -c '{RNNLM[2]}' \"$@\"; }}; {line}"
    return subprocess.run(["bash", "-c", command], env=environment, cwd=home.parent, capture_output=True, text=True)


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "<&-"])
@pytest.mark.parametrize("command", ["models", "describe nothing"])
def test_closed_streams_end_in_a_sentence(tmp_path: Path, command: str, closed: str) -> None:
    done = run(f"rnnlm {command} {closed}", tmp_path / "home")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)
    if ">" in closed:
        assert "standard output is closed" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_flow_with_its_server_runs_with_closed_streams(tmp_path: Path, toy_folder: Path, closed: str) -> None:
    """A flow can run with closed standard streams, as under some schedulers, although it starts a Prefect server."""
    unset = "unset ${!PREFECT_*}"  # Without a server's address, the command starts a temporary one.
    done = run(f"{unset}; rnnlm prepare --corpus {toy_folder} {closed}", tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "home" / "datasets").glob("*/COMPLETE"))


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    "command", ["--help", "models", "models --json", "settings", "corpora", "logs", "runs", "--version"]
)
def test_a_full_standard_output_is_named(tmp_path: Path, command: str) -> None:
    """The error names standard output and not the rnnlm home if only the disk of standard output is full."""
    done = run(f"rnnlm {command} > /dev/full", tmp_path / "home")
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "home" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("command", ["models", "inspect /etc/hostname", "run --preset smoke", "--help", "serve x"])
def test_a_deleted_current_folder_is_named(tmp_path: Path, command: str) -> None:
    (tmp_path / "gone").mkdir()
    for home in (tmp_path / "home", ""):
        line = f"export RNNLM_HOME={home}; mkdir -p gone; cd gone; rmdir ../gone; rnnlm {command}"
        done = run(line, tmp_path / "home")
        assert done.returncode == 2
        [sentence] = [line for line in done.stderr.splitlines() if not line.startswith("shell-init")]
        assert sentence.startswith("rnnlm: the current folder cannot be read (No such file or directory)")


@pytest.mark.long
def test_input_that_is_no_text_is_read_with_replacements(toy_run: RunRecord, home: Home) -> None:
    """Input bytes that are not valid text are replaced, even in a strict locale."""
    done = run(f"printf 'the caf\\xe9\\n' | PYTHONIOENCODING=utf-8:strict rnnlm tokenize {toy_run.run_id}", home.root)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_output_that_an_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    done = run("PYTHONIOENCODING=ascii rnnlm corpora", tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert "\\u010d" in done.stdout


@pytest.mark.long
def test_a_user_who_does_not_exist_is_a_sentence(tmp_path: Path) -> None:
    done = run("RNNLM_HOME='~nosuchuser/x' rnnlm runs", tmp_path / "home")
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_system_s_refusal_is_a_sentence(tmp_path: Path) -> None:
    """An error of the operating system is reported in one sentence. Here a file has the name of a folder."""
    (tmp_path / "file").touch()
    for line in ("rnnlm backup file/below", "RNNLM_HOME=$PWD/file/below rnnlm models"):
        done = run(line, tmp_path / "home")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) <= 3


@pytest.mark.slow
# A disk of each of these sizes is too small for Prefect, or becomes full during training.
@pytest.mark.parametrize("mebibytes", [3, 9, 13])
def test_a_full_disk_ends_a_run_that_the_next_resumes(tmp_path: Path, mebibytes: int) -> None:
    disk, text = tmp_path / "disk", tmp_path / "text.txt"
    disk.mkdir()
    text.write_text("".join(f"the cat number {number} sees the dog .\n" for number in range(3_000)))
    namespace = ["unshare", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size={mebibytes}m none {disk}"
    if subprocess.run([*namespace, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system in a namespace")
    command = f'RNNLM_HOME={disk}/home "$@" run --preset smoke --corpus {text} --set training.device=cpu'
    first, second = f"{command} 2> {tmp_path}/first.txt", f"{command} > {tmp_path}/second.txt"
    script = f"{mount} && {{ {first}; test $? = 2; }} && mount -o remount,size=500m {disk} && {second}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*namespace, "sh", "-c", script, "sh", *RNNLM], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    told = (tmp_path / "first.txt").read_text()
    assert done.returncode == 0, told + done.stderr
    assert "Traceback" not in told
    assert told.count("no space is left on this disk, or on that of the temporary files.\nFree some space") == 1
    assert len(told.splitlines()) < 20
    assert "as champion" in (tmp_path / "second.txt").read_text()
