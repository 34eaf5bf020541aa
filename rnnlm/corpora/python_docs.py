"""The built-in corpus python-docs, which consists of English documentation from the Python installation.

The corpus contains `pydoc_data.topics` and the docstrings of the standard library and of some libraries. The files are
read with `ast` and not imported. Each sentence is a line, and a blank line follows each docstring.
"""

import ast
import importlib.util
import logging
import platform
import re
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
# The name of the distribution that provides each imported name. constraints.txt pins the versions of all distributions.
LIBRARIES = {
    "matplotlib": "matplotlib",
    "numpy": "numpy",
    "pandas": "pandas",
    "sklearn": "scikit-learn",
}
# The version of the extraction, which is part of the corpus's key. Increase it when the same sources give a different
# text.
EXTRACTION_VERSION = "2"
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "lib2to3", "site-packages", "dist-packages", "_vendor"}
# A role in reStructuredText: :func:`~os.walk` becomes os.walk.
DOCSTRING_ROLE = re.compile(r":[\w:+.-]+:`~?([^`<]*?)(?:\s*<[^`]*>)?`")
LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")  # A link in reStructuredText: `text <target>`_ becomes text.
MARKUP = re.compile(r"`+_{0,2}|\*{1,2}(?=\S)|(?<=\S)\*{1,2}|\|(?=\S)|(?<=\S)\|")
UNDERLINE = re.compile(r"^\s*([-=~^\"'`#*+.:_])\1{2,}\s*$")
# Beginnings of lines that are not prose: fields such as :param x:, directives, and rows of tables.
FIELD = re.compile(r"^\s*(:\w[^:]*:|\.\. |@\w+|[-*+•]\s*$|\|)")
# A parameter in numpydoc's style, such as "x : array_like".
PARAMETER = re.compile(r"^\s*[\w.*, {}'\"\[\]-]+\s*:(\s|$)(?!.*[.!?]$)")
BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|\(?[a-z]\))\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z])")
PROSE_WORD = re.compile(r"[^\W_]+(?:[-'’._][^\W_]+)*|[^\w\s]")
# Characters that must not be in the text. A docstring with unescaped backslashes may contain them, as in base64.py of
# Python 3.14.
NOT_IN_TEXT = re.compile("[\0\ud800-\udfff]")
MINIMUM_WORDS = 4
LETTER_SHARE = 0.7  # The fraction of words consisting of letters above which a sentence is kept.


def python_docs_versions() -> dict[str, str]:
    """Return everything on which the text depends."""
    return {"extraction": EXTRACTION_VERSION, "python": platform.python_version()} | {
        name: version(name) for name in LIBRARIES.values()
    }


def write_python_docs(target: Path) -> dict[str, Any]:
    """Write the corpus, and return metadata for the corpus record.

    The text is the same for the same library versions.
    """
    seen: set[str] = set()
    words = 0
    with target.open("w", encoding="utf-8", newline="\n") as stream:
        for name, files in python_sources():
            before = words
            for path in files:
                for docstring in docstrings(path):
                    fresh = list(dict.fromkeys(line for line in prose_sentences(docstring) if line not in seen))
                    seen.update(fresh)
                    words += sum(len(line.split()) for line in fresh)
                    if fresh:
                        stream.write("\n".join(fresh) + "\n\n")
            logger.info("python-docs: %s gave %s words", name, f"{words - before:,}")
    return {"words": words, "versions": python_docs_versions()}


def python_sources() -> Iterator[tuple[str, list[Path]]]:
    """Yield each library with its source files sorted by path, the standard library first."""
    yield "the standard library", source_files(Path(sysconfig.get_paths()["stdlib"]))
    for name in LIBRARIES:
        found = importlib.util.find_spec(name)
        assert found is not None, name  # The library exists, because it is a dependency of rnnlm.
        assert found.origin is not None, name
        yield name, source_files(Path(found.origin).parent)


def source_files(folder: Path) -> list[Path]:
    """Return all .py files below a folder, except tests."""
    files = (path for path in folder.rglob("*.py") if not SKIPPED_FOLDERS & set(path.relative_to(folder).parts[:-1]))
    return sorted(path for path in files if not path.name.startswith(("test_", "conftest")))


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file from top to bottom, or the topics of `pydoc_data/topics.py`."""
    try:
        tree = ast.parse(path.read_bytes())
    # A file that cannot be parsed, such as a template or one in another encoding, is skipped.
    except (SyntaxError, ValueError):
        return
    if path.parts[-2:] == ("pydoc_data", "topics.py"):
        yield from (
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def prose_sentences(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring with single spaces between words."""
    for paragraph in docstring_paragraphs(docstring):
        for sentence in SENTENCE_END.split(plain(paragraph)):
            words = PROSE_WORD.findall(sentence)
            spelled = sum(word.isalpha() for word in words)
            signs = sum(not word[0].isalnum() for word in words)
            if (
                len(words) > MINIMUM_WORDS
                and words[-1] in ".!?"
                and words[0][0].isalpha()
                and spelled >= LETTER_SHARE * (len(words) - signs)
                and signs * 3 <= len(words)
                and not NOT_IN_TEXT.search(sentence)
            ):
                yield " ".join(sentence.split())


def docstring_paragraphs(docstring: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring. A bullet begins a paragraph, and literal blocks (after `::`) are skipped."""
    gathered: list[str] = []
    # The indent of the line before the current literal block, or None outside of a block.
    literal_indent: int | None = None
    doctest = False
    for line in [*docstring.expandtabs().split("\n"), ""]:
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and line.strip():
            if indent > literal_indent:
                continue
            literal_indent = None
        if line.lstrip().startswith((">>>", "...", "$ ", "In [", "Out[")):
            doctest = True
        elif not line.strip():
            doctest = False
        if doctest or not line.strip() or UNDERLINE.match(line) or FIELD.match(line) or PARAMETER.match(line):
            if gathered:
                yield " ".join(gathered)
            gathered = []
            if line.lstrip().startswith(".. "):
                literal_indent = indent
            continue
        if BULLET.match(line) and gathered:
            yield " ".join(gathered)
            gathered = []
        text = BULLET.sub("", line).strip()
        if text.endswith("::"):
            literal_indent = indent
            text = text[:-1]
        gathered.append(text)


def plain(text: str) -> str:
    """Return the text without roles, link targets and emphasis."""
    return MARKUP.sub("", LINK.sub(r"\1", DOCSTRING_ROLE.sub(r"\1", text)))
