"""Run a notebook of the tutorial and show what its cells give, without Jupyter.

python docs/run_notebook.py NOTEBOOK            such as docs/tutorial/notebook.ipynb
python docs/run_notebook.py --write NOTEBOOK    and write the outputs into it

The cells run one after the other in one namespace, in an empty folder that is also the home. A cell gives what it
prints, and the value of its last line.
"""

import argparse
import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run_tutorial import empty_home  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--write", action="store_true", help="write the outputs into the notebook")
    options = parser.parse_args()
    notebook = json.loads(options.notebook.read_text(encoding="utf-8"))
    found = run_cells(code_of(notebook))
    for code, (printed, value) in zip(code_of(notebook), found, strict=True):
        print(f"{code}\n{printed}{value}\n")
    if options.write:
        for number, (cell, (printed, value)) in enumerate(zip(code_cells(notebook), found, strict=True), start=1):
            cell["execution_count"] = number
            cell["outputs"] = outputs(printed, value, number)
        options.notebook.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def code_of(notebook: dict[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in code_cells(notebook)]


def stored_outputs(notebook: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the notebook says that each code cell prints, and its value as text."""
    found = []
    for cell in code_cells(notebook):
        printed = "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")
        values = [one["data"]["text/plain"] for one in cell["outputs"] if one["output_type"] == "execute_result"]
        found.append((printed, "".join("".join(value) for value in values)))
    return found


def run_cells(cells: list[str]) -> list[tuple[str, str]]:
    """Run the cells. Return what each prints, and its value as text, or "" if it has none."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with empty_home():
        return [run_cell(code, namespace) for code in cells]


def run_cell(code: str, namespace: dict[str, Any]) -> tuple[str, str]:
    statements = ast.parse(code).body
    last = statements.pop() if statements and isinstance(statements[-1], ast.Expr) else None
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(ast.Module(statements, []), "notebook", "exec"), namespace)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), namespace)
    return output.getvalue(), "" if value is None else repr(value)


def outputs(printed: str, value: str, number: int) -> list[dict[str, Any]]:
    """Return a cell's outputs as Jupyter stores them."""
    found: list[dict[str, Any]] = []
    if printed:
        found.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value:
        data = {"text/plain": value.splitlines(keepends=True)}
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


if __name__ == "__main__":
    sys.exit(main())
