"""The first sentence of a docstring must be a sentence about the function or object. Ruff checks mood and period."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("benchmarks", "deploy", "docs", "flows", "rnnlm", "tasks", "tests")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# A docstring that begins like this gives a shape, a parameter's description, a mapping, or a fragment.
GLOSS = re.compile(r"\(|[a-z_]\w*(, \w+)*( and \w+)?: |\S+ →|(What|Whether|Of|As|Like|If|With|By|From)\b")
NOUN = re.compile(r"(True|False|None|The|A|An|All|Every|Each|Those|Its|One|How|Why)\b|\w+Error\b")


def first_sentences(source: str) -> dict[int, tuple[str, bool]]:
    """Return each docstring's first paragraph by its line, with True if the docstring belongs to a called function.

    Tests and properties are not called.
    """
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            is_called = is_function and not node.name.startswith("test_") and not is_property(node)
            found[node.body[0].lineno] = text.split("\n\n")[0], is_called
    return found


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def failing(source: str) -> list[int]:
    """Return the lines of all docstrings that match GLOSS, and of docstrings of called functions that match NOUN."""
    return [
        line
        for line, (sentence, is_called) in first_sentences(source).items()
        if GLOSS.match(sentence) or (is_called and NOUN.match(sentence))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_sentences(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        assert failing(path.read_text(encoding="utf-8")) == [], path.relative_to(ROOT)


@pytest.mark.parametrize(
    ("docstring", "fails"),
    [
        ("Return the split of each file name. If several rules match, the first one decides.", False),
        ("Name → the split of its first claim that counts.", True),
        ("(rows, V) logits.", True),
        ("logits: (rows, V), with -inf for excluded tokens.", True),
        ("rows, columns: of the table.", True),
        ("Whether the text is hard-wrapped.", True),
        ("True if the text is hard-wrapped.", True),
        ("The best version.", True),
        ("ConfigError for a wrong name.", True),
        ("Raise ConfigError for a wrong name.", False),
        ("As above, but for each row.", True),
        ("Assign numbers to words.", False),
    ],
)
def test_a_gloss_is_told_from_a_sentence(docstring: str, fails: bool) -> None:
    assert bool(failing(f'def f():\n    """{docstring}"""\n')) is fails
    assert failing('class Words:\n    """The words of a text."""\n') == []
