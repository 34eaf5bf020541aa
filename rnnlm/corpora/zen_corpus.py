"""The Zen of Python as a corpus of one line, which a model memorises in seconds.

All three splits have the same text, because the corpus demonstrates overfitting.
"""

import ast
import codecs
import importlib.util
import platform
from pathlib import Path
from typing import Any


def zen_versions() -> dict[str, str]:
    """Return everything on which the text depends."""
    return {"python": platform.python_version()}


def write_zen(target: Path) -> dict[str, Any]:
    """Write a folder with a file for each split, and return metadata for the corpus record."""
    target.mkdir()
    text = " ".join(zen().split())
    for split in ("train", "valid", "test"):
        (target / f"{split}.txt").write_text(text + "\n", encoding="utf-8")
    return {"words": len(text.split()), "versions": zen_versions()}


def zen() -> str:
    """Return the text of `import this` from the module's source, because importing the module would print the text."""
    found = importlib.util.find_spec("this")
    assert found is not None
    assert found.origin is not None
    for node in ast.parse(Path(found.origin).read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return codecs.decode(node.value.value, "rot13")
    raise AssertionError(f"{found.origin} holds no text")
