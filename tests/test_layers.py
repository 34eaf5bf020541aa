"""Rules about files and imports that the import contracts in pyproject.toml cannot express."""

import ast
import functools
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rnnlm.registry.bundle import REQUIREMENTS, portable_modules
from tests.python_imports import imports

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("flows", "tasks", "rnnlm")
# For each of these files, NEEDS_EXTRA has the optional package whose class the file extends.
NEEDS_EXTRA = {"rnnlm/extensions/harness/recurrent_lm.py": "lm_eval"}
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the absolute dotted names of all imported modules."""
    return (module for module, _ in imports(source, package))


def test_portable_modules_need_what_a_version_requires_and_each_other() -> None:
    """Modules that are copied with a registered model import only each other and the model's required packages.

    They must work in environments without rnnlm.
    """
    modules = portable_modules()
    assert {Path("models/elman.py"), Path("models/xlstm.py"), Path("errors.py")} <= set(modules)
    for module in modules:
        for name in imported((ROOT / "rnnlm" / module).read_text(encoding="utf-8"), ("rnnlm", *module.parent.parts)):
            root = name.partition(".")[0]
            # Builds of torch for CUDA include Triton. Without Triton, diagonal_recurrence.py works, too.
            assert root in {*sys.stdlib_module_names, *REQUIREMENTS, "rnnlm", "triton"}, module
            if root == "rnnlm":
                assert Path(*name.split(".")[1:]).with_suffix(".py") in modules, module


def test_no_two_modules_have_the_same_name() -> None:
    """No two modules have the same name, so the name of a file alone identifies a module."""
    names = [path.stem for path in FILES if path.is_relative_to(ROOT / "rnnlm") and path.stem != "__init__"]
    assert repeated(names) == set()


def repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


@functools.cache
def top_level_nodes() -> list[ast.stmt]:
    return [node for path in FILES for node in ast.parse(path.read_text(encoding="utf-8")).body]


def test_every_task_is_run_by_a_flow_or_an_engine() -> None:
    """Every task is run by a flow or an engine, because a task without a caller would be dead code.

    tests/tasks/test_every_task.py checks that each task has a test.
    """
    files = [*(ROOT / "flows").glob("*.py"), *(ROOT / "tasks").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    called = set(re.findall(r"(?<!def )\b(\w+)\(", text)) | set(re.findall(r"engine_of\((\w+)", text))
    tasks = {
        name
        for path in (ROOT / "tasks").glob("*.py")
        for name, decorators in functions_of(path)
        if any("task" in item for item in decorators)
    }
    assert len(tasks) > 20
    assert tasks - called == set()


def test_no_task_has_the_name_of_a_library_function() -> None:
    tasks = {name for path in (ROOT / "tasks").glob("*.py") for name, _ in functions_of(path)}
    library = {name for path in (ROOT / "rnnlm").rglob("*.py") for name, _ in functions_of(path)}
    assert tasks & library == set()


def functions_of(path: Path) -> list[tuple[str, list[str]]]:
    """Return the name and the decorators of each function of a module."""
    functions = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef))
    return [(function.name, [ast.unparse(item) for item in function.decorator_list]) for function in functions]


def test_flow_files_cannot_shadow_a_library() -> None:
    """No file of flows/ has the name of a library, because a worker inserts flows/ as the first entry of sys.path."""
    named = {path.stem for path in (ROOT / "flows").glob("*.py")} - {"__init__", "command_line"}
    assert named
    assert all(name.endswith("_flow") for name in named)


@pytest.mark.slow
def test_no_file_of_the_spine_is_long() -> None:
    """A file outside the extensions has at most 300 lines."""
    spine = [path for path in FILES if path.parts[len(ROOT.parts)] == "rnnlm" and "extensions" not in path.parts]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in spine}
    assert len(lengths) > 200
    assert {path: length for path, length in lengths.items() if length > 300} == {}


def test_importing_every_module_makes_no_folder(tmp_path: Path) -> None:
    lacking = {ROOT / place for place, package in NEEDS_EXTRA.items() if importlib.util.find_spec(package) is None}
    importable = [path for path in FILES if path.stem != "served_model" and path not in lacking]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in importable]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "PREFECT"))}
    environment |= {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path / "unused")}
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    command = [sys.executable, "-c", script, *modules]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in tmp_path.iterdir()} - {".config", ".cache", "unused"}
    assert made == set()


def test_the_fixtures_are_imported_without_torch() -> None:
    """conftest.py sets environment variables that torch and Triton read when they are imported."""
    script = "import sys, tests.conftest; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("package", [*PACKAGES, "tests", "benchmarks", "docs"])
def test_docstrings_begin_like_sentences(package: str) -> None:
    """Docstrings begin with a sentence about the object, unlike "What a run has", "Of a run" or "As a run does"."""
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in (ROOT / package).rglob("*.py")
        for line in re.findall(
            r'"""((?:What|Whatever|Of|Who|Whose|Whoever|Be|As|So|Else|Nor)\b.*)', path.read_text(encoding="utf-8")
        )
    ]
    assert found == []


def test_names_of_tests_are_short() -> None:
    """The names of tests have at most twelve words. More details belong in the docstring."""
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"def (test_\w+)", tests) if name.count("_") > 12] == []


def test_every_helper_is_listed() -> None:
    """tests/README.md has a row for each helper module, and no row for a module that does not exist."""
    helpers = {path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")}
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    listed = {ROOT / name for name in re.findall(r"^\| `(tests/[\w/]+\.py)`", page, re.MULTILINE)}
    # The folder of an extension may have been deleted, together with its modules.
    kept = {path for path in listed if path.parent.is_dir()}
    assert {str(path.relative_to(ROOT)) for path in helpers ^ kept} == set()


def test_every_fixture_is_a_decorated_function() -> None:
    """Every fixture is a function with a decorator, so that a search for `def NAME(` finds it."""
    for path in (ROOT / "tests").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        decorators = [item for node in nodes if isinstance(node, ast.FunctionDef) for item in node.decorator_list]
        fixtures = [item for item in decorators if ast.unparse(item).startswith("pytest.fixture")]
        mentions = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.fixture"]
        assert len(mentions) == len(fixtures), path
        assert not any("name=" in ast.unparse(item) for item in fixtures), path


# Names that several modules may define: type variables, and constants of modules that are copied with every model.
REPEATED = {"LOWEST_TEMPERATURE", "R", "SAMPLING_DEFAULTS", "T"}


def test_no_two_modules_have_a_constant_of_the_same_name() -> None:
    """No two modules have a constant of the same name, so each name has one meaning and one definition."""
    names = [
        target.id
        for node in top_level_nodes()
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id.isupper()
    ]
    # Each extension and each command module defines these names.
    assert repeated(names) - {"EXTENSION", "HEADING"} == REPEATED


def test_no_two_classes_have_the_same_name() -> None:
    assert repeated(node.name for node in top_level_nodes() if isinstance(node, ast.ClassDef)) == set()


OWN_IMPORT = re.compile(r"^\s*(?:>>> )?from ((?:rnnlm|flows|tasks|tests)[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def test_imports_within_texts_name_what_there_is() -> None:
    """Imports within strings and on pages name existing modules and objects.

    Without this test, only a slow test would detect a wrong name.
    """
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    programs = [path for folder in (*PACKAGES, "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    found = [
        (path, module, name.split(" as ")[0].strip())
        for path in (*pages, *programs)
        for module, names in OWN_IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in names.split(",")
    ]
    assert len(found) > 1_000
    wrong = [f"{path.relative_to(ROOT)}: {module}.{name}" for path, module, name in found if not defines(module, name)]
    assert wrong == []


def defines(module: str, name: str) -> bool:
    """Return True if the module binds the name at its top level, or if the name is a module of the package."""
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    is_module = (place / name).is_dir() or (place / f"{name}.py").is_file()
    return is_module or (file.is_file() and name in names_of(file))


@functools.cache
def names_of(file: Path) -> set[str]:
    """Return all names that a module binds anywhere, by definitions, assignments and imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names
