"""Every number in the tutorial is printed by the tutorial's code."""

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from rnnlm.runtime.ports import free_port
from tests.docs_module import load_docs_module

ROOT = Path(__file__).resolve().parents[1]


RUNNER = load_docs_module("run_tutorial")
DECIMAL = re.compile(r"[+-]?\d+\.\d+")
NOTEBOOKS = load_docs_module("run_notebook")
# The groups are the language and the text of each block. Blocks without a language are for a shell.
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TRAINING = (
    "backpropagation",
    "before-recurrence",
    "comparing",
    "counting",
    "novel",
    "other-sequences",
    "sampling",
)  # These chapters are slow. The other chapters take a second.


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in TRAINING else ()) for name in RUNNER.chapter_names()],
)
def test_a_chapter_prints_what_it_shows(name: str) -> None:
    blocks = RUNNER.run_page(RUNNER.CHAPTERS / f"{name}.md")
    assert any(block.expected for block in blocks)
    for block in blocks:
        fits = is_printed_alike if name in TRAINING else str.__eq__
        assert fits(block.printed, block.expected), f"run: python docs/run_tutorial.py --write {name}"


def is_printed_alike(printed: str, expected: str) -> bool:
    """Return True if the texts are equal, apart from decimal numbers that differ by 1 in the last digit.

    Processors add numbers in different orders, so a value of a trained network may be rounded up or down.
    """
    numbers, wanted = DECIMAL.findall(printed), DECIMAL.findall(expected)
    if DECIMAL.sub("#", printed) != DECIMAL.sub("#", expected):
        return False
    return all(
        len(one.partition(".")[2]) == len(other.partition(".")[2])
        and abs(Decimal(one) - Decimal(other)) <= Decimal(1).scaleb(-len(one.partition(".")[2]))
        for one, other in zip(numbers, wanted, strict=True)
    )


@pytest.mark.parametrize(
    ("printed", "expected", "alike"),
    [
        ("elman -0.021 clear", "elman -0.020 clear", True),
        ("elman -0.022 clear", "elman -0.020 clear", False),
        ("elman +0.0 clear", "elman -0.0 clear", True),
        ("elman 9.9 clear", "elman 10.0 clear", True),
        ("elman 1.00 clear", "elman 1.0 clear", False),
        ("elman 0.02 clear", "elman 0.02 not clear", False),
        ("20,001 parameters", "20,002 parameters", False),
    ],
)
def test_trained_figures_may_differ_by_one_last_digit(printed: str, expected: str, alike: bool) -> None:
    assert is_printed_alike(printed, expected) is alike


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("docs/how-to/python.md", marks=pytest.mark.long),
        pytest.param("README.md", marks=pytest.mark.slow),  # The page is slow, because it trains on python-docs.
    ],
)
def test_python_on_a_page_prints_what_it_shows(page: str) -> None:
    blocks = RUNNER.run_page(ROOT / page)
    for block in blocks:
        assert is_printed_alike(block.printed, block.expected), (block.printed, block.expected)
    assert any(block.expected for block in blocks)


@pytest.mark.long
def test_cells_of_the_notebook_give_what_it_shows() -> None:
    notebook = json.loads((RUNNER.CHAPTERS / "notebook.ipynb").read_text(encoding="utf-8"))
    expected = NOTEBOOKS.stored_outputs(notebook)
    found = NOTEBOOKS.run_cells(NOTEBOOKS.code_of(notebook))
    for cell, shown in zip(found, expected, strict=True):
        assert all(map(is_printed_alike, cell, shown)), ("run: python docs/run_notebook.py --write …", cell, shown)
    assert all(printed or value for printed, value in expected)


def test_a_cell_gives_what_it_prints_and_its_last_value() -> None:
    cells = ["x = 2\nprint(x)\nx + 1", "x = 5", "None"]
    assert NOTEBOOKS.run_cells(cells) == [("2\n", "3"), ("", ""), ("", "")]
    cell = {"cell_type": "code", "source": cells[:1], "outputs": NOTEBOOKS.outputs("2\n", "3", 1)}
    assert NOTEBOOKS.stored_outputs({"cells": [cell, {"cell_type": "markdown"}]}) == [("2\n", "3")]


def test_the_runner_finds_code_and_what_it_prints(tmp_path: Path) -> None:
    """The function that runs a page finds its code blocks and the expected output of each block."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n\n```python\nprint(x + 1)\n```\n")
    first, second = RUNNER.run_page(page)
    assert (first.printed, first.expected) == ("2\n", "3\n")
    assert (second.printed, second.expected) == ("3\n", "")
    written = RUNNER.with_output(page.read_text(), [first, second])
    assert written.count("```text") == 2
    assert "```text\n2\n```" in written


@pytest.mark.long
def test_the_first_page_runs_in_one_shell_from_top_to_bottom(tmp_path: Path) -> None:
    """The commands of the first page run in one shell in the page's order, because a reader keeps one terminal open."""
    commands = shell_lines(RUNNER.CHAPTERS / "first-model.md")
    assert len(commands) >= 5
    done = in_one_shell(
        tmp_path, [line for line in commands if not line.startswith("make ")], "rnnlm run --preset smoke"
    )
    assert done.count("rnnlm-python-docs version 1") >= 2


def test_the_map_has_a_place_for_every_statement() -> None:
    """textbook-map.md has a row for each statement of its four sources. The 144 statements were counted by hand."""
    text = (RUNNER.CHAPTERS / "textbook-map.md").read_text(encoding="utf-8")
    text, _, unattributed = text.partition("## Also said")
    assert unattributed.count("\n| ") >= 15
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| .*", text, re.MULTILINE)]
    statements = [row for row in rows if row[0] != "statement"]
    assert len(statements) >= 144
    assert len({tuple(row) for row in statements}) == len(statements)
    assert all(len(row) >= 3 and row[-1] and set(row[1].split(", ")) <= {"T", "A", "B", "–"} for row in statements)


@pytest.mark.long
def test_every_command_of_the_map_runs(tmp_path: Path) -> None:
    """Every command of the map runs in one rnnlm home, on a real text and with few tokens.

    Rows with a ¹ need a network and are left out.
    """
    (tmp_path / "my-text.txt").write_text("\n\n".join(topics.values()), encoding="utf-8")
    rows = (RUNNER.CHAPTERS / "textbook-map.md").read_text(encoding="utf-8").splitlines()
    commands = [command for row in rows if "¹" not in row for command in re.findall("`(rnnlm [^`]+)`", row)]
    assert len(commands) >= 12
    few = "--set training.maximum_tokens=3000"
    short = {"run": few, "compare": f"--seeds 1 --cost-seconds 0.1 {few}"}
    in_one_shell(tmp_path, [f"{command} {short.get(command.split()[1], '')}" for command in commands])


def shell_lines(page: Path) -> list[str]:
    """Return the lines of a page's shell blocks."""
    blocks = [text for language, text in FENCED.findall(page.read_text(encoding="utf-8")) if not language]
    return "".join(blocks).splitlines()


def in_one_shell(folder: Path, lines: list[str], *last: str) -> str:
    """Run the lines in one shell that stops at the first failure, and return their output."""
    (folder / ".venv").symlink_to(Path(sys.prefix))
    script = "\n".join(["set -euo pipefail", *with_servers_in_the_background(lines), *last])
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "PREFECT", "MLFLOW"))
    }
    environment["PATH"] = f"{folder / '.venv' / 'bin'}:{environment['PATH']}"
    # The output is written to a file. A pipe would stay open as long as the page's background processes.
    with (folder / "output").open("w+") as output:
        done = subprocess.run(["bash", "-xc", script], cwd=folder, env=environment, stdout=output, stderr=output)
        output.seek(0)
        printed = output.read()
    assert done.returncode == 0, printed[-3000:]
    return printed


def with_servers_in_the_background(lines: list[str]) -> list[str]:
    """Return the lines, changed so that servers run on free ports and in the background.

    A server that would run until Ctrl-C ends before the next server starts or at the end.
    """
    changed, stop = [], "kill $SERVER; wait $SERVER || true"
    port = free_port()
    for line in lines:
        if "mlflow ui" in line or "rnnlm serve" in line:
            address = f"http://127.0.0.1:{port}/health"
            changed += [f"[ -z ${{SERVER:-}} ] || {{ {stop}; }}", f"{line.partition('#')[0]} --port {port} & SERVER=$!"]
            changed += [f"until curl --silent --fail --output /dev/null {address}; do kill -0 $SERVER; sleep 0.2; done"]
        else:
            changed.append(line.replace("localhost:8000", f"localhost:{port}"))
    return [*changed, f"[ -z ${{SERVER:-}} ] || {{ {stop}; }}"]
