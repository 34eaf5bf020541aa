"""Print a random sample of the project's sentences, for a reader who does not know the code.

    python benchmarks/sentences.py SEED [--count 120] [--with-places]

The sentences are docstrings, comments, log messages, errors and descriptions of settings in rnnlm, flows, tasks, tests
and benchmarks, each drawn with the same probability. For each sentence, ask whether the documentation of PyTorch or
DuckDB could contain it, and whether it is understood after one reading.
"""

import argparse
import ast
import io
import random
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("rnnlm", "flows", "tasks", "tests", "benchmarks")
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


def items() -> list[Item]:
    """Return all sentences of the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "--", *FOLDERS], capture_output=True, text=True, check=True).stdout
    found = []
    for name in sorted(listed.split()):
        if name.endswith(".py"):
            source = Path(name).read_text(encoding="utf-8")
            tree = ast.parse(source)
            parts = (*docstrings(tree), *told(tree), *comments(source))
            found += [Item(kind, text, f"{name}:{line}") for kind, text, line in parts]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--with-places", action="store_true", help="also print file and line, to mend what failed")
    options = parser.parse_args()
    found = items()
    for number, item in enumerate(random.Random(options.seed).sample(found, options.count), 1):
        place = f" ({item.place})" if options.with_places else ""
        print(f"{number}. {item.kind}{place}\n{item.text}\n")
    print(f"{options.count} of {len(found)}")


if __name__ == "__main__":
    main()
