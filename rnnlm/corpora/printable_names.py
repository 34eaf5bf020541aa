"""Names of files in messages. A name may come from an untrusted source, with control characters or invalid UTF-8."""

import os
from collections.abc import Iterable
from pathlib import Path

from rnnlm.errors import CorpusError

FILE_NAMES_SHOWN = 5  # The largest number of names that a message lists.


def printable(text: str) -> str:
    """Return untrusted text for a message of one line, without control characters and at most 100 characters long."""
    return "".join(character if character.isprintable() else "?" for character in text)[:100]


def shortened(names: Iterable[str]) -> str:
    """Return the first few names, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - FILE_NAMES_SHOWN:,} more" if len(names) > FILE_NAMES_SHOWN else ""
    return ", ".join(map(printable, names[:FILE_NAMES_SHOWN])) + more


def readable_path(path: Path) -> str:
    """Return the path as text that can be stored. Bytes that are not UTF-8 become escape sequences."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def unreadable(label: str, error: Exception) -> CorpusError:
    reason = getattr(error, "strerror", None) or error
    return CorpusError(f"{label[:200]}: cannot be read ({reason}); check its path and permissions")
