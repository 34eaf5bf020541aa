"""Who may know whom, held by reading the imports; and every task has its test."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("flows", "tasks", "rnnlm")
ALLOWED = {  # package → the folders or files that may import it
    "prefect": ("flows", "tasks"),
    "mlflow": ("rnnlm/tracking", "rnnlm/registry"),
    "duckdb": ("rnnlm/sequences", "rnnlm/evaluation", "rnnlm/scoring"),
    "fastapi": ("rnnlm/serving",),
    "uvicorn": ("rnnlm/serving", "flows/operations/prefect_server.py"),
    "lm_eval": ("rnnlm/harness",),
    "onnxruntime": ("rnnlm/models/onnx_graph.py",),
    "flows": ("flows",),
    "tasks": ("flows",),
}
FORBIDDEN = {  # folder or file → packages it must not import
    "rnnlm/config.py": ("torch",),
    "rnnlm/corpora": ("torch",),
    "rnnlm/tokenizers": ("torch",),
    "rnnlm/models/elman.py": ("rnnlm", "transformers"),
    "rnnlm/generation/sampling.py": ("rnnlm", "transformers"),
    "rnnlm/generation/inference_weights.py": ("rnnlm", "transformers"),
}
NEEDS_EXTRA = {"rnnlm/harness/language_model.py": "lm_eval"}  # file → the package its class is derived from
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def imported(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """Absolute dotted names of all that a file of `package` imports, inside functions and relative ones too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield ".".join([*base, *([node.module] if node.module else [])])


def lies_in(path: Path, place: str) -> bool:
    return path.relative_to(ROOT).as_posix() == place or path.is_relative_to(ROOT / place)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards_only(path: Path) -> None:
    for name in imported(path.read_text(encoding="utf-8"), path.relative_to(ROOT).parent.parts):
        package = name.partition(".")[0]
        if package in ALLOWED:
            assert any(lies_in(path, place) for place in ALLOWED[package]), f"{path} imports {name}"
        for place, packages in FORBIDDEN.items():
            assert not (lies_in(path, place) and package in packages), f"{path} imports {name}"


def test_relative_imports_are_resolved() -> None:
    """The reader of imports sees through `from ..x import y`: this guards the guard."""
    source = "from ..corpora import sources\nfrom . import elman\n"
    assert sorted(imported(source, ("rnnlm", "models"))) == ["rnnlm.corpora", "rnnlm.models"]


@pytest.mark.parametrize("path", sorted((ROOT / "tasks").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_every_task_has_one_task_and_a_test_that_runs_it(path: Path) -> None:
    decorated = [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any("task" in ast.unparse(item) for item in node.decorator_list)
    ]
    assert decorated == [path.stem]
    test = ROOT / "tests" / "tasks" / f"test_{path.name}"
    assert test.exists()
    assert f"{path.stem}.fn(" in test.read_text(encoding="utf-8")


def test_flow_files_cannot_shadow_a_library() -> None:
    """A worker puts flows/ first on sys.path."""
    named = {path.stem for path in (ROOT / "flows").glob("*.py")} - {"__init__", "command_line"}
    assert named
    assert all(name.endswith("_flow") for name in named)


def test_importing_every_module_makes_no_folder(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    lacking = {ROOT / place for place, package in NEEDS_EXTRA.items() if importlib.util.find_spec(package) is None}
    importable = [path for path in FILES if path.stem != "served_model" and path not in lacking]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in importable]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "PREFECT"))}
    environment |= {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path / "unused")}
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", script, *modules],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    made = {path.name for path in tmp_path.iterdir()} - {".config", ".cache", "unused"}
    assert made == set()
