"""Every command that README and docs show can be called so."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from flows.command_line import build_group

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "reference" / "commands.md"  # shows usage, not calls
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {GENERATED})]
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?rnnlm (?P<arguments>.+)$")


def commands(page: Path) -> list[str]:
    """Arguments of each `rnnlm …` line of a page's code blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = (match["arguments"] for line in lines if (match := COMMAND.match(line.strip())))
    return [arguments for arguments in found if "──" not in arguments]  # that is a drawing


def parse(arguments: list[str]) -> None:
    """Read the arguments as the command does, without running it."""
    command: Any = build_group()
    context = command.make_context("rnnlm", arguments)
    while rest := [*context._protected_args, *context.args]:
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_understood(page: Path) -> None:
    for arguments in commands(page):
        try:
            parse(shlex.split(arguments, comments=True))
        except typer.TyperException as error:
            pytest.fail(f"{arguments}: {error.format_message()}")
        except typer.Exit as stopped:  # --help, --version
            assert stopped.exit_code == 0


def test_the_reader_of_pages_finds_commands() -> None:
    """This guards the guard."""
    found = commands(ROOT / "README.md")
    assert len(found) >= 8
    assert any(line.startswith("models show") for line in found)


def test_images_in_the_docs_are_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    named = [tag for page in PAGES for tag in re.findall(r"image: \S*rnnlm:(\S+)", page.read_text(encoding="utf-8"))]
    assert named
    assert set(named) == {version}
