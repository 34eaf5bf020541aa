"""No command prints control characters from a text, a name or a log line on the terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

CLEAR = "\x1b[2J"
COMMANDS = [
    ["generate", "RUN", "--prompt", f"a {CLEAR}zz", "--maximum-tokens", "3"],
    ["explain", f"a {CLEAR}zz cat", "RUN"],
    ["tokenize", "RUN", "--show", "--text", f"a {CLEAR}zz cat"],
    ["rescore", "lists.jsonl", "--weight", "0.5", "--model", "RUN"],
    ["pairs", "pairs.csv", "--good", f"{CLEAR}", "--bad", "bad", "--model", "RUN"],
    ["inspect", f"{CLEAR}.txt"],
    ["inspect", f"no{CLEAR}.txt"],
    ["score", "--input", f"no{CLEAR}.txt", "--model", "RUN"],
    ["evaluate", f"no{CLEAR}"],
    ["models", "show", f"no{CLEAR}"],
    [f"no{CLEAR}"],
    ["generate", f"--no{CLEAR}"],
    ["settings", f"no{CLEAR}"],
    ["promote", f"no{CLEAR}/1"],
]


@pytest.fixture
def odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": CLEAR, "text": f"a cat {CLEAR}", "score": 1.0}, {"id": CLEAR, "text": "the", "score": -90.0}]
    Path("lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    Path("pairs.csv").write_text("good,bad\na cat,cat a\n", encoding="utf-8")
    Path(f"{CLEAR}.txt").write_text(f"a cat {CLEAR}\n" * 50, encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(" ".join(command)))
@pytest.mark.usefixtures("odd_files", "restored_environment")
def test_no_command_prints_a_control_character(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, command: list[str]
) -> None:
    main([str(toy_run.folder) if part == "RUN" else part for part in command])
    printed = "".join(capsys.readouterr())
    assert "\x1b" not in printed
    assert printed.strip()


@pytest.mark.long
@pytest.mark.usefixtures("odd_files")
def test_warnings_of_a_real_process_are_escaped(home: Home, toy_run: RunRecord) -> None:
    program = [sys.executable, "-m", "flows.command_line"]
    done = subprocess.run(
        [*program, "generate", str(toy_run.folder), "--prompt", f"a {CLEAR}zz", "--maximum-tokens", "3"],
        capture_output=True,
        text=True,
        env=os.environ | {"RNNLM_HOME": str(home.root), "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert done.returncode == 0
    assert "read as <unk>: a, \\x1b[2Jzz" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
