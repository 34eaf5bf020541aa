"""Every extension can be deleted by its name. No other file imports it, and the program still trains a champion.

The files of an extension have its name as a part of their path, optionally with `test_` before or `_flow` after it:
rnnlm/extensions/scoring/, flows/scoring_flow.py, flows/commands/scoring.py, tests/rnnlm/extensions/scoring/. Tests and
benchmarks with other names are also deleted if they import a deleted file.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.python_imports import imports

ROOT = Path(__file__).resolve().parent.parent
# `rnnlm up` and its supervisor need Prefect, so this extension exists only in the package `flows`.
IN_FLOWS_ALONE = ("service",)
NAMES = (
    *sorted(path.name for path in (ROOT / "rnnlm" / "extensions").iterdir() if (path / "__init__.py").exists()),
    *IN_FLOWS_ALONE,
)
ANIMALS = ("cat", "dog", "bird", "fox", "horse", "zebra", "mouse")
SPINE = ("flows", "tasks", "rnnlm")
TRAINED = """
import sys
import rnnlm
settings = {"training.epochs": 1, "model.hidden_size": 16, "tokenizer.vocabulary_size": 300}
model = rnnlm.train(sys.argv[1], preset="smoke", settings=settings)
print(model.name, len(model.score(["the cat sees the dog"])))
"""


def tracked(tree: Path) -> list[Path]:
    """Return the files of a checkout that git tracks."""
    done = subprocess.run(["git", "ls-files"], cwd=tree, capture_output=True, text=True, check=True)
    return [Path(line) for line in done.stdout.splitlines() if (tree / line).is_file()]


def bears(path: Path, name: str) -> bool:
    parts = [re.sub(r"^test_|_flow$", "", part) for part in (*path.parts[:-1], path.stem)]
    return name in parts and path.suffix != ".sql" or name in parts[:-1]


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imported(tree: Path, path: Path) -> frozenset[str]:
    """Return the dotted names of the modules that a file imports, and of the objects that it imports from them."""
    names: set[str] = set()
    for module, parts in imports((tree / path).read_text(encoding="utf-8"), path.parent.parts):
        names |= {module, *(f"{module}.{part}" for part in parts)}
    return frozenset(names)


def importers(tree: Path, files: Iterable[Path], deleted: Iterable[Path]) -> set[Path]:
    """Return the files that import a deleted file, directly or through other files."""
    gone = {module_of(path) for path in deleted if path.suffix == ".py"}
    names = {path: imported(tree, path) for path in files if path.suffix == ".py"}
    found: set[Path] = set()
    while more := {path for path in names.keys() - found if names[path] & gone}:
        found |= more
        gone |= {module_of(path) for path in more}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_imports_an_extension(name: str) -> None:
    files = tracked(ROOT)
    own = [path for path in files if bears(path, name)]
    assert any(path.parts[:2] == ("flows", "commands") or path.parts[:2] == ("rnnlm", "extensions") for path in own)
    others = [path for path in files if path not in own and path.parts[0] in SPINE]
    assert importers(ROOT, others, own) == set()


def delete(tree: Path, names: Iterable[str]) -> None:
    """Remove the files of the named extensions, and the tests and benchmarks that import them."""
    files = tracked(tree)
    own = {path for path in files if any(bears(path, name) for name in names)}
    others = [path for path in files if path not in own and path.parts[0] not in SPINE]
    for path in own | importers(tree, others, own):
        (tree / path).unlink()
    for folder in sorted(tree.rglob("*/"), reverse=True):
        if ".git" not in folder.parts and not any(folder.iterdir()):
            folder.rmdir()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of the checkout, including uncommitted changes."""
    tree = tmp_path / "clone"
    for path in tracked(ROOT):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tree / path)
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    subprocess.run(["git", "add", "--all"], cwd=tree, check=True)
    return tree


@pytest.fixture
def text(tmp_path: Path) -> Path:
    lines = [f"the {ANIMALS[n % 5]} sees the {ANIMALS[n % 7]} near {n % 11} rivers ." for n in range(400)]
    path = tmp_path / "animals.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(tree: Path, *command: str) -> str:
    """Run a program with the code of `tree` and an rnnlm home next to it, and return the output.

    The test fails if the program fails.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "MLFLOW"))}
    environment |= {"PYTHONPATH": str(tree), "RNNLM_HOME": str(tree.with_name("home"))}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_without_an_extension_text_still_becomes_a_model(name: str, clone: Path, text: Path) -> None:
    delete(clone, [name])
    run(clone, tool("ruff"), "check", ".")
    run(clone, tool("lint-imports"))
    assert run(clone, sys.executable, "-c", TRAINED, str(text)).split()[-1] == "1"
    assert "run " in run(clone, sys.executable, "-m", "flows.command_line", "--help")


@pytest.mark.slow
def test_without_all_extensions_lint_and_the_nightly_flow_succeed(clone: Path, text: Path) -> None:
    delete(clone, NAMES)
    assert sorted(path.name for path in (clone / "rnnlm" / "extensions").iterdir()) == ["__init__.py"]
    run(clone, tool("ruff"), "check", ".")
    run(clone, tool("ruff"), "format", "--check", ".")
    run(clone, tool("lint-imports"))
    run(clone, tool("mypy"))
    command = [sys.executable, "-m", "flows.command_line", "run", "--corpus", str(text), "--preset", "smoke"]
    settings = ["--set", "training.epochs=1", "--set", "tokenizer.vocabulary_size=300"]
    assert "champion" in run(clone, *command, *settings)
