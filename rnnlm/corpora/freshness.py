"""Notes about obtained corpora, and when to ask a server or hub for changes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rnnlm.config import CorpusConfig
from rnnlm.corpora.sources import Metadata, Source
from rnnlm.home import Home, read_json, write_json
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.records import LeftOut
from rnnlm.storage.shared_storage import find_storage
from rnnlm.storage.stages import fetch_folder, find_new_damage, mark_used

AGE_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Note:
    """A note about an obtained corpus. Times are ISO 8601, UTC."""

    digest: str  # of the corpus
    version: Metadata | None  # of the remote text
    obtained: str  # when this text was first obtained
    checked: str  # when its server or hub last answered
    problem: str = ""  # why the last check failed
    left_out: tuple[LeftOut, ...] = ()  # files that turned out to be unreadable


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def read_note(home: Home, path: Path) -> Note | None:
    """The note, if it and its corpus are complete."""
    noted = read_json(path)
    try:
        corpus = inside(home.corpora, noted["digest"][:16])
        left_out = tuple(LeftOut(**one) for one in noted["left_out"])
        kept = {name: noted[name] for name in ("digest", "version", "obtained", "checked", "problem")}
    except (KeyError, TypeError, ValueError, UnsafeNameError):  # being written, or damaged: the source is read again
        return None
    mark_used(corpus)
    return None if find_new_damage(home, corpus) is not None else Note(**kept, left_out=left_out)


def write_note(path: Path, note: Note, key: Metadata, remote: bool) -> None:
    """Write the note; if its source is remote, to the storage, too, so that other machines need not read the source.

    key: what the note is named by.
    """
    write_json(path, {**as_json(note), "key": key})
    storage = find_storage()
    if storage and remote:
        storage.store_file(stored_name(path), path)


def fetch_note(home: Home, path: Path) -> Note | None:
    """The note that another machine has put into the storage, with its corpus; None if there is none."""
    storage = find_storage()
    if storage is None or not storage.fetch_file(stored_name(path), path):
        return None
    try:
        corpus = inside(home.corpora, read_json(path)["digest"][:16])
    except (KeyError, TypeError, UnsafeNameError):  # just being written, or damaged
        return None
    with home.lock(f"{home.corpora.name}-{corpus.name}"):
        fetch_folder(corpus)
    return read_note(home, path)


def stored_name(path: Path) -> str:
    return f"corpora/known/{path.name}"


def as_json(note: Note) -> dict[str, Any]:
    return {**vars(note), "left_out": [one.model_dump() for one in note.left_out]}


def is_current(note: Note, config: CorpusConfig, source: Source, began: str) -> bool:
    """True if no check is needed: the text cannot change, was checked since `began`, or may be older."""
    if not source.remote or config.sha256 or config.refresh == "never" or note.checked >= began:
        return True
    if config.refresh == "always":
        return False
    longest = timedelta(**{AGE_UNITS[config.refresh[-1]]: int(config.refresh[:-1])})
    return datetime.now(UTC) - datetime.fromisoformat(note.checked) < longest


def freshness_of(note: Note, source: Source) -> str:
    """A phrase for reports."""
    if not source.remote:
        return ""
    if note.problem:
        return f"{note.problem}; the stored copy of {note.obtained[:10]} is used"
    if note.obtained == note.checked:
        return f"read on {note.obtained[:10]}"
    return f"unchanged since {note.obtained[:10]}, checked on {note.checked[:10]}"
