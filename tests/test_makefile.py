"""`make setup` chooses one of the supported interpreters and installs the required packages."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MINORS = ("3.11", "3.12", "3.13", "3.14")
# For each supported version, the oldest release that a distribution or pyenv still provides.
INTERPRETERS = ("3.11.2", *(f"{minor}.0" for minor in MINORS[1:]))


def normalized(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_all_files_name_the_same_interpreters() -> None:
    names = ("Makefile", "README.md", "CONTRIBUTING.md", "docs/tutorial/first-model.md")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    sentence = f"Python {', '.join(MINORS[:-1])} or {MINORS[-1]}"
    assert [name for name, text in texts.items() if sentence not in " ".join(text.split())] == []

    project = PROJECT["project"]
    first, beyond = MINORS[0], f"3.{int(MINORS[-1].split('.')[1]) + 1}"
    assert project["requires-python"] == f">={first},<{beyond}"
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert named == list(MINORS)
    assert PROJECT["tool"]["mypy"]["python_version"] == first
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{first.replace('.', '')}"

    looked_for = re.search(r"^PYTHON \?= (.*)$", texts["Makefile"], re.MULTILINE)
    assert looked_for is not None
    assert looked_for[1].split() == [*(f"python{minor}" for minor in reversed(MINORS)), "python3"]
    assert f"({first.replace('.', ', ')}) <= sys.version_info < ({beyond.replace('.', ', ')})" in texts["Makefile"]

    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["ci"]["strategy"]["matrix"] == {"os": ["ubuntu-latest", "macos-latest"], "python": list(MINORS)}
    dockerfile = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    (image,) = re.findall(r"^ARG PYTHON=python:(\d+\.\d+)", dockerfile, re.MULTILINE)
    assert image in MINORS


def test_every_pinned_package_takes_all_interpreters() -> None:
    """Every pinned package supports all interpreters according to its metadata.

    If a package did not, pip's error would name another package.
    """
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    pinned = {(normalized(name), version) for name, version in pins}
    needed = {
        (normalized(found.name), found.version): SpecifierSet(found.metadata["Requires-Python"])
        for found in distributions()
        if "Requires-Python" in found.metadata
    }
    checked = needed.keys() & pinned
    # Most of the pinned packages are installed and were checked. The others belong to rare extras.
    assert len(checked) > len(pinned) / 2
    markers = {one.name: one.marker for one in map(Requirement, PROJECT["project"]["dependencies"]) if one.marker}

    def is_installed(name: str, interpreter: str) -> bool:
        marker = next((marker for marked, marker in markers.items() if normalized(marked) == name), None)
        return marker is None or marker.evaluate({"python_version": interpreter.rpartition(".")[0]})

    refusing = {
        f"{name} {version} needs Python {needed[name, version]}, not {interpreter}"
        for name, version in checked
        for interpreter in INTERPRETERS
        if interpreter not in needed[name, version] and is_installed(name, interpreter)
    }
    assert not refusing


# These environment variables of the `make` that runs the tests are removed.
MAKES = ("PYTHON", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
# This fake interpreter reports a given version, and creates an environment that is almost empty.
INTERPRETER = """#!/bin/sh
if [ "$1" = -c ]; then exec {real} -c 'import sys; sys.version_info = {version}; exec(sys.argv[1])' "$2"; fi
mkdir -p .venv/bin
for name in python rnnlm; do printf '#!/bin/sh\\n' > .venv/bin/$name; chmod +x .venv/bin/$name; done
"""
# A fake uv. `uv venv … .venv` creates an environment with an interpreter that uv provides.
UV = INTERPRETER.replace('if [ "$1" = -c ]', 'if [ "$1" = --version ]; then echo uv 0.9; exit; fi; if [ "$1" = -c ]')


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a folder with the files that `make setup` reads, and a folder `bin` with all programs except Python."""
    folder = tmp_path / "checkout"
    (folder / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    for name in ("make", "sh", "cat", "cksum", "cut", "touch", "rm", "mkdir", "chmod"):
        program = shutil.which(name)
        assert program is not None
        (folder / "bin" / name).symlink_to(program)
    return folder


def make(checkout: Path, target: str, interpreters: dict[str, tuple[int, ...]], *options: str) -> tuple[str, str]:
    """Return the standard output and the standard error of `make`.

    `interpreters` are the interpreters on the machine, with their versions.
    """
    for name, version in interpreters.items():
        file = checkout / "bin" / name
        program = UV if name == "uv" else INTERPRETER
        file.write_text(program.format(real=shlex.quote(sys.executable), version=version), encoding="utf-8")
        file.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in MAKES}
    done = subprocess.run(
        [checkout / "bin" / "make", target, *options],
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
        ({"python3": (3, 15, 0), "python3.12": (3, 12, 3)}, (), "python3.12"),
        ({"python3": (3, 14, 0)}, (), "python3"),
        # The interpreter named "python3.13" has version 2.7.
        ({"python3.13": (2, 7), "python3.11": (3, 11, 9)}, (), "python3.11"),
        ({"python3.13": (3, 13, 0), "mine": (3, 11, 9)}, ("PYTHON=mine",), "mine"),
    ],
)
def test_make_takes_the_newest_interpreter_that_can_be_used(
    checkout: Path, interpreters: dict[str, tuple[int, ...]], options: tuple[str, ...], chosen: str
) -> None:
    said, _ = make(checkout, "setup", interpreters, *options)
    assert said.splitlines()[0] == f"{chosen} -m venv .venv"


def test_an_environment_keeps_its_interpreter(checkout: Path) -> None:
    make(checkout, "setup", {"python3.11": (3, 11, 2)})
    # The pinned versions have changed, so packages must be installed again.
    (checkout / "constraints.txt").write_text("", encoding="utf-8")
    said, _ = make(checkout, "setup", {"python3.13": (3, 13, 0)})
    assert "pip install" in said
    assert "-m venv" not in said


@pytest.mark.parametrize("interpreters", [{}, {"python3": (3, 10, 12)}, {"python3": (3, 15, 0)}])
def test_without_an_interpreter_make_says_how_to_get_one(
    checkout: Path, interpreters: dict[str, tuple[int, ...]]
) -> None:
    _, problem = make(checkout, "setup", interpreters)
    assert "Python 3.11, 3.12, 3.13 or 3.14" in problem
    for command in ("apt install python3 python3-venv", "dnf install python3.13", "brew install python@3.13", "uv"):
        assert command in problem
    assert not (checkout / ".venv").exists()


def test_uv_brings_an_interpreter_where_none_is_found(checkout: Path) -> None:
    said, _ = make(checkout, "setup", {"python3": (3, 10, 12), "uv": (3, 13, 0)})
    assert said.splitlines()[0] == "uv venv --python 3.13 .venv"


def installed(said: str) -> list[str]:
    """Return the names of the packages in the commands of pip and uv, in order. The argument `.` means rnnlm."""
    return re.findall(r'pip install .* --editable "(.*)"', said)


def test_running_installs_the_program_and_testing_adds_its_tools_to_it(checkout: Path) -> None:
    python = {"python3": (3, 12, 1)}
    said, _ = make(checkout, "run", python)
    assert installed(said) == ["."]
    assert "-m venv" in said
    said, _ = make(checkout, "up", python)
    assert installed(said) == []
    said, _ = make(checkout, "lint", python)
    assert installed(said) == [".[dev]"]
    assert "-m venv" not in said
    assert installed(make(checkout, "run", python)[0] + make(checkout, "setup", python)[0]) == []


def test_setup_installs_both_at_once(checkout: Path) -> None:
    python = {"python3": (3, 12, 1)}
    assert installed(make(checkout, "setup", python)[0]) == [".[dev]"]
    assert installed(make(checkout, "run", python)[0]) == []


def test_another_build_of_pytorch_is_installed_when_it_is_asked_for(checkout: Path) -> None:
    python = {"python3": (3, 12, 1)}
    for options, command in (((), "pytorch_build.py "), (("TORCH=cuda",), "pytorch_build.py cuda")):
        said, _ = make(checkout, "run", python, *options)
        assert f".venv/bin/python deploy/{command}" in said.splitlines()
        assert "pytorch_build" not in make(checkout, "run", python, *options)[0]
