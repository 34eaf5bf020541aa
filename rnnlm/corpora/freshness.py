"""Notes about texts that were read or downloaded, which determine when a server or hub is asked for changes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.sources import Metadata, Source
from rnnlm.runtime.recent_times import is_recent
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import LeftOut, Record
from rnnlm.storage.shared_storage import find_storage
from rnnlm.storage.stages import fetch_folder, find_new_damage, mark_used

AGE_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Note(Record):
    """A note about a text that was read or downloaded. Its times are in ISO 8601 and UTC."""

    key: Metadata  # Everything on which the stored text depends.
    digest: str  # The digest of the corpus that contains the text.
    version: Metadata | None  # The version of the text on the server or hub, or None for a local text.
    obtained: str  # The time when this version of the text was first read or downloaded.
    checked: str  # The time when the server or hub last answered.
    problem: str = ""  # The reason why the last check failed, or "" if it did not fail.
    left_out: tuple[LeftOut, ...]  # The files of the source that could not be read.
    # The digest of the source and the settings, which is the same for all versions of a growing text. It is "" in notes
    # of rnnlm 0.3.
    place: str = ""
    before: str = ""  # The digest of the preceding text of the source, or "" for the first text.


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def read_note(home: Home, path: Path) -> Note | None:
    """Return the note, or None if the note or its corpus is missing or incomplete."""
    found = note_and_folder(home, path)
    if found is None:
        return None
    note, corpus = found
    mark_used(corpus)
    return None if find_new_damage(home, corpus) is not None else note


def note_and_folder(home: Home, path: Path) -> tuple[Note, Path] | None:
    """Return the note and the folder of its corpus, or None if the note is missing, incomplete or damaged."""
    try:
        note = Note.model_validate(read_json(path))
        return note, inside(home.corpora, note.digest[:16])
    except (ValueError, UnsafeNameError):
        return None


def latest_note(home: Home, place: str) -> Note | None:
    """Return the note of the last text of a source, or None if there is no note. `place` identifies the source.

    The last text is the one that no note gives as the predecessor of another text. Times decide only between several
    such texts, because a clock may have been ahead when one of them was written.
    """
    found = (note_and_folder(home, path) for path in home.notes.glob("*.json"))
    notes = [note for note, _ in filter(None, found) if note.place == place]
    preceding = {note.before for note in notes}
    return max(notes, key=lambda note: (note.digest not in preceding, note.obtained), default=None)


def write_note(path: Path, note: Note, remote: bool) -> None:
    """Write the note. If the source is remote, also write the note to the shared storage for other machines."""
    write_json(path, note.model_dump())
    storage = find_storage()
    if storage and remote:
        storage.store_file(stored_name(path), path)


def fetch_note(home: Home, path: Path) -> Note | None:
    """Fetch a note that another machine wrote to the shared storage, and its corpus. Return None if there is none."""
    storage = find_storage()
    if storage is None or not storage.fetch_file(stored_name(path), path):
        return None
    found = note_and_folder(home, path)
    if found is None:
        return None
    with home.lock(f"{home.corpora.name}-{found[1].name}"):
        fetch_folder(found[1])
    return read_note(home, path)


def stored_name(path: Path) -> str:
    return f"corpora/known/{path.name}"


def is_current(note: Note, config: CorpusConfig, source: Source, began: str) -> bool:
    """Return True if the source need not be asked for changes.

    The source is not asked if its text cannot change, if it was asked since `began`, or if the last answer is not older
    than config.refresh allows.
    """
    if not source.remote or config.sha256 or config.refresh == "never" or began <= note.checked <= now():
        return True
    if config.refresh == "always":
        return False
    longest = timedelta(**{AGE_UNITS[config.refresh[-1]]: int(config.refresh[:-1])})
    return is_recent(datetime.fromisoformat(note.checked).timestamp(), longest.total_seconds())


def freshness_of(note: Note, source: Source) -> str:
    """Return a message that says since when the text is unchanged, or why the stored copy is used."""
    if not source.remote:
        return ""
    if note.problem:
        return f"{note.problem}; the stored copy of {note.obtained[:10]} is used"
    if note.obtained == note.checked:
        return f"read on {note.obtained[:10]}"
    return f"unchanged since {note.obtained[:10]}, checked on {note.checked[:10]}"
