"""Every command in README and docs is a valid call with valid settings."""

import contextlib
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from flows.command_line import build_group
from rnnlm.config import result_settings
from rnnlm.config.presets import build_config
from rnnlm.storage.home import digest_of

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "reference" / "commands.md"  # A page with the usage of commands, which contains no calls.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {GENERATED})]
MEASURED_PAGES = sorted((ROOT / "docs" / "explanation").glob("*.md"))
MEASURED = Path(__file__).with_name("measured_settings.json")
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?rnnlm (?P<arguments>.+)$")
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_SENTENCE = re.compile(r"`(?:\.venv/bin/)?rnnlm ([^`]+)`")


def commands(page: Path) -> list[str]:
    """Return the arguments of each `rnnlm …` line in the code blocks of a page."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = (match["arguments"] for line in lines if (match := COMMAND.match(line.strip())))
    # A line with the character ─ is part of a drawing.
    return [arguments for arguments in found if "──" not in arguments]


def commands_in_sentences(page: Path) -> list[str]:
    """Return the arguments of each `rnnlm …` in a page's text, without the brackets around optional parts."""
    text = re.sub(r"\s+", " ", BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [re.sub(r"[\[\]]", "", arguments) for arguments in IN_SENTENCE.findall(text)]


def parse(arguments: list[str], in_sentence: bool = False) -> dict[str, Any]:
    """Parse the arguments as the command does, without running it, and return its parameters.

    If `in_sentence` is true, the arguments may consist of a group of commands only.
    """
    command: Any = build_group()
    context = command.make_context("rnnlm", arguments)
    while rest := [*context._protected_args, *context.args]:
        name, command, rest = command.resolve_command(context, rest)
        if in_sentence and not rest and hasattr(command, "list_commands"):
            return {}
        context = command.make_context(name, rest, parent=context)
    if "set" in context.params:
        build_config(context.params.get("preset"), context.params["set"] or ())
    parameters: dict[str, Any] = context.params
    return parameters


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_understood(page: Path) -> None:
    for arguments in commands(page):
        try:
            parse(shlex.split(arguments, comments=True))
        except typer.TyperException as error:
            pytest.fail(f"{arguments}: {error.format_message()}")
        except typer.Exit as stopped:  # The --help and --version options end the parsing.
            assert stopped.exit_code == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_are_understood(page: Path) -> None:
    """Commands in sentences have valid names and options, but may lack required arguments."""
    for arguments in commands_in_sentences(page):
        with contextlib.suppress(typer.BadParameter, typer.Exit):
            parse(shlex.split(arguments), in_sentence=True)


def test_settings_of_measured_commands_mean_what_they_meant() -> None:
    """The settings of documented commands are still those with which the results on the pages were measured.

    For instance, a changed default would make these results outdated.
    """
    digests = {command: settings_digest(command) for page in MEASURED_PAGES for command in measured_commands(page)}
    before = json.loads(MEASURED.read_text(encoding="utf-8"))
    changed = sorted(command for command in digests | before if digests.get(command) != before.get(command))
    assert not changed, (
        f"measure the figures of these commands again, or say on the page that they are of other settings; then copy "
        f"into {MEASURED.name}: {json.dumps({command: digests.get(command) for command in changed}, indent=2)}"
    )


def measured_commands(page: Path) -> list[str]:
    """Return the commands in code blocks that train on a particular text with non-default settings."""
    lines = (" ".join(shlex.split(line, comments=True)) for line in commands(page))
    return [line for line in lines if re.match("(run|compare) .*--(set|preset)", line) and "my-text" not in line]


def settings_digest(command: str) -> str:
    """Return a digest of all settings that affect the results, except the text."""
    parameters = parse(shlex.split(command))
    config = build_config(parameters.get("preset"), parameters["set"] or ())
    sections = (config.tokenizer, config.sequences, config.model, config.training)
    return digest_of([result_settings(section) for section in sections])[:8]


def test_images_in_the_docs_are_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    named = [tag for page in PAGES for tag in re.findall(r"image: \S*rnnlm:(\S+)", page.read_text(encoding="utf-8"))]
    assert named
    assert set(named) == {version}
