"""The printed numbers on the pages agree with the output of the commands. Commands that take seconds are run again.

Most commands read the texts in ../shared/data next to the project, and are skipped without these texts.
"""

import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.command_line import main

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
TEXTS = ("brown.txt", "ptb", "tinyshakespeare.txt")
TOLERANCE = 0.1  # The tolerance for numbers that depend on the order of rounding, such as a product of sixty matrices.


class Row(NamedTuple):
    """A row of a page. Braces stand for values that the command prints with --json, and … stands for any text."""

    page: str
    command: str
    row: str


TEXTBOOK, NGRAM, COMPARISON = (f"docs/explanation/{name}.md" for name in ("textbook", "ngram", "comparison"))
HOW_GOOD, PROBES = "docs/explanation/perplexity.md", "docs/explanation/probes.md"
BROWN, PTB = "ngram --corpus brown.txt", "ngram --corpus ptb"
TEST = "{test_perplexity:.2f}"
PIECES = "--set tokenizer.kind=bpe --set tokenizer.vocabulary_size"
CUT = "--set sequences.context_length=30 --set sequences.long_lines=truncate"
COUNTS = "--set model.kind=kneser-ney"
OF_COUNTS = f"| Kneser-Ney… | {TEST} | {{bits_per_byte:.3f}} | - |"
OF_ORDER = f"{TEST} | {{validation_perplexity:.2f}} | {{tokens:,}} | {{unknown}} |"

ROWS = (
    *(
        Row(TEXTBOOK, f"{BROWN} {PIECES}={size}", f"| {size:,} pieces | {{tokens:,}} | {TEST} | {{bits:,.0f}} |")
        for size in (2000, 8000, 32000)
    ),
    Row(TEXTBOOK, BROWN, f"| every word of the training part | {{unknown}} | {TEST} |"),
    Row(TEXTBOOK, f"{BROWN} --set tokenizer.vocabulary_size=10000", f"| 10,000 words | {{unknown}} | {TEST} |"),
    Row(TEXTBOOK, BROWN, f"| sentences, each on its own | {{tokens:,}} | {TEST} |"),
    Row(TEXTBOOK, f"{BROWN} --set sequences.mode=stream", f"| one running text | {{tokens:,}} | {TEST} |"),
    Row(TEXTBOOK, f"{BROWN} {CUT}", f"| the first 30 tokens of each sentence | {{tokens:,}} | {TEST} |"),
    Row(NGRAM, f"{PTB} --order 5", f"| Penn Treebank | 5 | **{TEST}** … | {{validation_perplexity:.2f}} | …"),
    *(Row(NGRAM, f"{PTB} --order {order}", f"| Penn Treebank | {order} | {OF_ORDER}") for order in (4, 3, 2, 1)),
    Row(NGRAM, BROWN, f"| Brown | 5 | {OF_ORDER}"),
    Row(NGRAM, f"{BROWN} --method textbook", f"| Brown | 5 | {TEST} | 299.06 | {{tokens:,}} | {{unknown}} |"),
    Row(COMPARISON, f"run --corpus ptb --preset ptb {COUNTS}", OF_COUNTS),
    Row(COMPARISON, f"run --corpus brown.txt {COUNTS}", OF_COUNTS),
    Row(COMPARISON, f"run --corpus tinyshakespeare.txt --preset shakespeare {COUNTS}", OF_COUNTS),
    Row(HOW_GOOD, f"run --corpus brown.txt {COUNTS}", "| Brown, 8,000 pieces | … | … | {test_perplexity:.1f} | …"),
    Row(HOW_GOOD, f"run --corpus ptb --preset ptb {COUNTS}", "| Penn Treebank, all … | … | {test_perplexity:.1f} |"),
    Row("README.md", f"run --corpus brown.txt {COUNTS}", "| Brown | … | {test_perplexity:.1f} | …"),
    Row("README.md", f"run --corpus ptb --preset ptb {COUNTS}", "| Penn Treebank | … | {test_perplexity:.1f} | …"),
    Row(PROBES, "run --preset overfit", "… perplexity {test_perplexity:.3f}. …"),
)  # fmt: skip

# These commands are fast enough for CI.
CHEAP = {BROWN, f"{PTB} --order 2", f"run --corpus brown.txt {COUNTS}", "run --preset overfit"}


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None) -> None:
    """Create a folder with the text `brown.txt` that the pages use, and with ../shared/data next to it."""
    if not DATA.is_dir():
        pytest.skip("there is no ../shared/data")
    work = tmp_path / "work"
    work.mkdir()
    for name in TEXTS:
        (work / name).symlink_to(DATA / name)
    (tmp_path / "shared").symlink_to(DATA.parent)
    monkeypatch.chdir(work)
    monkeypatch.setenv("RNNLM_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row for row in ROWS if row.command in CHEAP], marks=pytest.mark.long, id="cheap"),
        pytest.param([row for row in ROWS if row.command not in CHEAP], marks=pytest.mark.slow, id="others"),
    ],
)
@pytest.mark.usefixtures("texts")
def test_rows_are_what_their_commands_print(rows: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    assert rows
    printed = {command: answer(command, capsys) for command in dict.fromkeys(row.command for row in rows)}
    stale = [
        f"{row.page}: `rnnlm {row.command}` now gives {filled}"
        for row in rows
        if not stands_in(filled := row.row.format(**printed[row.command]), row.page)
    ]
    assert not stale, "\n".join(stale)


@pytest.mark.long
@pytest.mark.usefixtures("texts")
def test_gradients_of_fresh_networks_are_what_their_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command, shown = shown_output(PROBES, "rnnlm probe gradients")
    assert main(shlex.split(command)[1:]) == 0
    assert_same_figures(capsys.readouterr().out.partition("\n\n")[0], shown)


@pytest.mark.long
def test_a_table_of_abilities_is_what_its_command_prints() -> None:
    command, shown = shown_output("docs/explanation/abilities.md", ".venv/bin/python -c")
    arguments = shlex.split(command)[1:]
    printed = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert printed == shown


def answer(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*shlex.split(command), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    found["unknown"] = f"{found['unknown_rate']:.2%}".replace("%", " %") if found["unknown_rate"] else "0 %"
    if "tokens" in found:
        found["bits"] = found["tokens"] * math.log2(found["test_perplexity"])
    return found


def stands_in(row: str, page: str) -> bool:
    """Return True if a line of the page begins with the row, in which … matches any text."""
    pattern = ".*".join(map(re.escape, row.split("…")))
    return re.search(f"^{pattern}", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE) is not None


def shown_output(page: str, beginning: str) -> tuple[str, str]:
    """Return the code block of a page that begins with `beginning`, and the following block of output."""
    text = (ROOT / page).read_text(encoding="utf-8")
    pattern = rf"^```\w*\n({re.escape(beginning)}.*?)^```\n\n```text\n(.*?)^```"
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no output below {beginning}"
    return found[1], found[2]


def assert_same_figures(printed: str, shown: str) -> None:
    """Assert that two texts have the same words. Numbers may differ by TOLERANCE."""
    words, expected = printed.split(), shown.split()
    assert len(words) == len(expected), printed
    for word, wanted in zip(words, expected, strict=True):
        try:
            assert float(word) == pytest.approx(float(wanted), rel=TOLERANCE), printed
        except ValueError:
            assert word == wanted, printed
