"""The corpora that are known by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnlm.corpora import python_docs


@dataclass(frozen=True)
class Entry:
    """A corpus that this installation can write by itself."""

    name: str
    licence: str
    versions: Callable[[], dict[str, str]]  # all that its text depends on
    write: Callable[[Path], dict[str, Any]]  # writes the text to a path, returns facts about it


CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(
            name="python-docs",
            licence="Python: PSF licence 2; libraries: their own, mostly BSD-3-Clause and Apache-2.0",
            versions=python_docs.versions,
            write=python_docs.write_corpus,
        ),
    )
}
