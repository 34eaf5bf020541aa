"""Every Prefect task has a test that calls the task's function with `.fn()`, without a flow and a server."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import Task

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "tasks").glob("*.py") if path.stem != "__init__")


def tasks_of(module: str) -> set[str]:
    """Return the names of the Prefect tasks that a module of tasks/ defines."""
    name = f"tasks.{module}"
    members = vars(importlib.import_module(name)).items()
    return {key for key, value in members if isinstance(value, Task) and value.fn.__module__ == name}


def called_in_tests(source: str) -> set[str]:
    """Return the names NAME for which a test calls `NAME.fn(…)` outside `with pytest.raises(…)`."""
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    tests = (function for function in functions if function.name.startswith("test_"))
    return {name for test in tests for name in succeeding_calls(test)}


def succeeding_calls(node: ast.AST) -> Iterator[str]:
    """Yield the calls that must succeed. They are outside `with pytest.raises(…)`."""
    if isinstance(node, ast.With) and any("pytest.raises" in ast.unparse(item) for item in node.items):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fn":
        yield ast.unparse(node.func.value)
    for child in ast.iter_child_nodes(node):
        yield from succeeding_calls(child)


@pytest.mark.parametrize("module", MODULES)
def test_every_task_has_a_test_of_its_own(module: str) -> None:
    """The file tests/tasks/test_MODULE.py calls NAME.fn() for each task NAME of tasks/MODULE.py."""
    tests = Path(__file__).with_name(f"test_{module}.py")
    tasks = tasks_of(module)
    assert tasks
    missing = tasks - called_in_tests(tests.read_text(encoding="utf-8") if tests.exists() else "")
    assert sorted(missing) == [], f"{tests.name}: no test calls .fn() of these"


def test_a_call_that_must_fail_is_no_test_of_its_own() -> None:
    failing = "    with pytest.raises(ValueError):\n        one.fn()\n"
    source = f"def test_a():\n{failing}    two.fn(1)\n\ndef not_a_test():\n    three.fn()\n"
    assert called_in_tests(source) == {"two"}
