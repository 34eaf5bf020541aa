"""What is remembered of a corpus between runs, and when a server or hub is to be asked for its text again."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.sources import Metadata, Source
from rnnlm.home import Home, read_json
from rnnlm.stages import is_complete

UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Note:
    """Times are ISO 8601, UTC."""

    digest: str  # of the corpus
    version: Metadata | None  # of the remote text
    obtained: str  # when this text came for the first time
    checked: str  # when its server or hub was last asked, with an answer
    problem: str = ""  # why the last question had no answer


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def read_note(home: Home, path: Path) -> Note | None:
    """The note, if the corpus it names is there and whole."""
    noted = read_json(path)
    if not noted or not is_complete(home.corpora / noted["digest"][:16]):
        return None
    return Note(**{name: noted[name] for name in ("digest", "version", "obtained", "checked", "problem")})


def is_current(note: Note, config: CorpusConfig, origin: Source, began: str) -> bool:
    """True if nobody needs to be asked: the text cannot have changed, was asked for since `began`, or may be older."""
    if not origin.remote or config.sha256 or config.refresh == "never" or note.checked >= began:
        return True
    if config.refresh == "always":
        return False
    longest = timedelta(**{UNITS[config.refresh[-1]]: int(config.refresh[:-1])})
    return datetime.now(UTC) - datetime.fromisoformat(note.checked) < longest


def freshness_of(note: Note, origin: Source) -> str:
    """One phrase for reports."""
    if not origin.remote:
        return ""
    if note.problem:
        return f"{note.problem}; the copy of {note.obtained[:10]} is used"
    if note.obtained == note.checked:
        return f"read on {note.obtained[:10]}"
    return f"unchanged since {note.obtained[:10]}, asked on {note.checked[:10]}"
