"""Every figure of the tutorial is what its code prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_module import load_docs_module

ROOT = Path(__file__).resolve().parents[1]


RUNNER = load_docs_module("run_tutorial")
TRAINING = ("comparing", "counting", "novel")  # the others take a second


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in TRAINING else ()) for name in RUNNER.chapter_names()],
)
def test_a_chapter_prints_what_it_shows(name: str) -> None:
    blocks = RUNNER.run_page(RUNNER.CHAPTERS / f"{name}.md")
    assert any(block.expected for block in blocks)
    for block in blocks:
        assert block.printed == block.expected, f"run: python docs/run_tutorial.py --write {name}"


def test_the_runner_finds_code_and_what_it_prints(tmp_path: Path) -> None:
    """This guards the guard."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n\n```python\nprint(x + 1)\n```\n")
    first, second = RUNNER.run_page(page)
    assert (first.printed, first.expected) == ("2\n", "3\n")
    assert (second.printed, second.expected) == ("3\n", "")
    written = RUNNER.with_output(page.read_text(), [first, second])
    assert written.count("```text") == 2
    assert "```text\n2\n```" in written


@pytest.mark.long
def test_one_chapter_runs_from_the_command_line() -> None:
    command = [sys.executable, str(ROOT / "docs" / "run_tutorial.py"), "perplexity"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "perplexity: 48.0" in output
