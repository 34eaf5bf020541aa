"""`make setup` works with every interpreter that the project names: what it installs, and what it looks for."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
INTERPRETERS = ("3.11.2", "3.12.0", "3.13.0")  # the oldest of each that a distribution or pyenv still gives


def normalized(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_every_pinned_package_takes_all_interpreters() -> None:
    """The installed packages tell which they take; pip would say ResolutionImpossible, and name another package."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    pinned = {(normalized(name), version) for name, version in pins}
    needed = {
        (normalized(found.name), found.version): SpecifierSet(found.metadata["Requires-Python"])
        for found in distributions()
        if "Requires-Python" in found.metadata
    }
    checked = needed.keys() & pinned
    assert len(checked) > len(pinned) / 2  # most of the pins are installed here; the others belong to rarer extras
    refusing = {
        f"{name} {version} needs Python {needed[name, version]}, not {interpreter}"
        for name, version in checked
        for interpreter in INTERPRETERS
        if interpreter not in needed[name, version]
    }
    assert not refusing


MAKES = ("PYTHON", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")  # variables of the make that runs the tests
# An interpreter that takes itself for another version, and makes an environment without anything in it.
INTERPRETER = """#!/bin/sh
if [ "$1" = -c ]; then exec {real} -c 'import sys; sys.version_info = {version}; exec(sys.argv[1])' "$2"; fi
mkdir -p .venv/bin
for name in python pip; do printf '#!/bin/sh\\n' > .venv/bin/$name; chmod +x .venv/bin/$name; done
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what `make setup` reads, and a folder `bin` with the programs that it calls, but no Python."""
    folder = tmp_path / "checkout"
    (folder / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    for name in ("make", "sh", "cat", "cksum", "cut", "touch", "rm", "mkdir", "chmod"):
        program = shutil.which(name)
        assert program is not None
        (folder / "bin" / name).symlink_to(program)
    return folder


def make_setup(checkout: Path, interpreters: dict[str, tuple[int, ...]], *options: str) -> tuple[str, str]:
    """Return what `make setup` prints and complains of, on a machine with these interpreters: name → version."""
    for name, version in interpreters.items():
        file = checkout / "bin" / name
        file.write_text(INTERPRETER.format(real=shlex.quote(sys.executable), version=version), encoding="utf-8")
        file.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in MAKES}
    done = subprocess.run(
        [checkout / "bin" / "make", "setup", *options],
        cwd=checkout,
        env=environment | {"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("interpreters", "options", "chosen"),
    [
        ({"python3.11": (3, 11, 2)}, (), "python3.11"),
        ({"python3.11": (3, 11, 2), "python3.13": (3, 13, 0), "python3": (3, 12, 1)}, (), "python3.13"),
        ({"python3": (3, 12, 1)}, (), "python3"),
        ({"python3": (3, 14, 0), "python3.12": (3, 12, 3)}, (), "python3.12"),
        ({"python3.13": (2, 7), "python3.11": (3, 11, 9)}, (), "python3.11"),  # a name of which the program is not
        ({"python3.13": (3, 13, 0), "mine": (3, 11, 9)}, ("PYTHON=mine",), "mine"),
    ],
)
def test_make_takes_the_newest_interpreter_that_can_be_used(
    checkout: Path, interpreters: dict[str, tuple[int, ...]], options: tuple[str, ...], chosen: str
) -> None:
    said, _ = make_setup(checkout, interpreters, *options)
    assert said.splitlines()[0] == f"{chosen} -m venv .venv"


def test_an_environment_keeps_its_interpreter(checkout: Path) -> None:
    make_setup(checkout, {"python3.11": (3, 11, 2)})
    (checkout / "constraints.txt").write_text("", encoding="utf-8")  # so that it installs again
    said, _ = make_setup(checkout, {"python3.13": (3, 13, 0)})
    assert "pip install" in said
    assert "-m venv" not in said


@pytest.mark.parametrize("interpreters", [{}, {"python3": (3, 10, 12)}, {"python3": (3, 14, 0)}])
def test_without_an_interpreter_make_says_how_to_get_one(
    checkout: Path, interpreters: dict[str, tuple[int, ...]]
) -> None:
    _, problem = make_setup(checkout, interpreters)
    assert "Python 3.11, 3.12 or 3.13" in problem
    for command in ("apt install python3 python3-venv", "dnf install python3.13", "brew install python@3.13"):
        assert command in problem
    assert not (checkout / ".venv").exists()
