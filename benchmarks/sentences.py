"""Print a random sample of the project's sentences, for a reader who does not know the code.

    python benchmarks/sentences.py SEED [--count 120] [--with-places | --beside-others]

The sentences are docstrings, comments, log messages, errors and descriptions of settings in rnnlm, flows, tasks, tests
and benchmarks, each drawn with the same probability. For each sentence, ask whether the documentation of PyTorch or
DuckDB could contain it, and whether it is understood after one reading.

A reader's judgement has no fixed scale. With --beside-others, half of the sentences are therefore from installed
libraries, in random order, and the numbers of this project's sentences are written to standard error.
"""

import argparse
import ast
import io
import random
import subprocess
import sys
import sysconfig
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("rnnlm", "flows", "tasks", "tests", "benchmarks")
# Files of the installed libraries with which this project is compared.
OTHERS = (
    *("torch/nn/**/*.py", "torch/optim/*.py", "torch/utils/data/**/*.py", "torch/distributed/checkpoint/**/*.py"),
    *("datasets/*.py", "mlflow/tracking/*.py", "prefect/flows.py", "prefect/tasks.py", "prefect/deployments/*.py"),
    *("duckdb/*.py", "_pytest/*.py"),
)
LONGEST = 700  # A docstring of another library is cut after this number of characters.
TOLD = {"debug": "log", "info": "log", "warning": "log", "error": "log", "setting": "setting", "Field": "setting"}
PRAGMAS = ("# type:", "# noqa", "# fmt:", "#!")


class Item(NamedTuple):
    kind: str
    text: str
    place: str


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                name = "module" if isinstance(node, ast.Module) else node.name
                yield f"docstring of {name}", text, node.body[0].lineno


def told(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield the texts of log messages, errors and descriptions of settings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call, kind = node.exc, "error"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            call, kind = node, TOLD.get(name, "")
        else:
            continue
        texts = [ast.unparse(one) for one in call.args if isinstance(one, ast.JoinedStr | ast.Constant)]
        long = [text for text in texts if len(text.split()) > 2]
        if kind and long:
            yield kind, " ".join(long), node.lineno


def comments(source: str) -> Iterator[tuple[str, str, int]]:
    """Yield the comments of a file. Consecutive lines of comments form one comment."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(PRAGMAS):
            continue
        alone = not token.line[: token.start[1]].strip()
        if block and alone and token.start[0] == last + 1:
            block.append(token.string)
        else:
            if block:
                yield "comment", "\n".join(block), first
            first, block = token.start[0], [token.string if alone else token.line.strip()]
        last = token.start[0]
    if block:
        yield "comment", "\n".join(block), first


def items(files: Iterable[Path]) -> list[Item]:
    """Return the docstrings, comments, messages and setting descriptions in Python files."""
    found = []
    for path in files:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        parts = (*docstrings(tree), *told(tree), *comments(source))
        found += [Item(kind, text, f"{path}:{line}") for kind, text, line in parts]
    return found


def own_files() -> list[Path]:
    """Return the Python files of this project that are tracked by git."""
    command = ["git", "ls-files", "--", *(f"{folder}/**.py" for folder in FOLDERS)]
    return [Path(name) for name in sorted(subprocess.check_output(command, text=True).split())]


def other_files() -> list[Path]:
    libraries = Path(sysconfig.get_paths()["purelib"])
    return [path for pattern in OTHERS for path in sorted(libraries.glob(pattern))]


def beside_others(draw: random.Random, own: list[Item], count: int) -> list[Item]:
    """Return `count` sentences without their places, half of them from other libraries, in random order."""
    others = items(other_files())
    mixed = [(True, item) for item in draw.sample(own, count // 2)]
    mixed += [(False, item) for item in draw.sample(others, count - count // 2)]
    draw.shuffle(mixed)
    print("of this project:", *(n for n, (is_own, _) in enumerate(mixed, 1) if is_own), file=sys.stderr)
    # Only the kind of an item is printed, because the name of a function would reveal the project.
    return [Item(item.kind.partition(" of ")[0], item.text[:LONGEST], "") for _, item in mixed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=120)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--with-places", action="store_true", help="also print file and line, to mend what failed")
    shown.add_argument("--beside-others", action="store_true", help="half of the sentences are from other libraries")
    options = parser.parse_args()
    found, draw = items(own_files()), random.Random(options.seed)
    sample = beside_others(draw, found, options.count) if options.beside_others else draw.sample(found, options.count)
    for number, item in enumerate(sample, 1):
        place = f" ({item.place})" if options.with_places else ""
        print(f"{number}. {item.kind}{place}\n{item.text}\n")
    print(f"{options.count} of {len(found)}")


if __name__ == "__main__":
    main()
