"""An unfinished download on disk: its bytes so far, and which version of the file they are of."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.home import digest_of, read_json, write_json
from rnnlm.redaction import redacted


@dataclass(frozen=True)
class Version:
    """What tells one state of a file on a server from another."""

    etag: str | None
    modified: str | None
    total_bytes: int | None

    @property
    def validator(self) -> str | None:
        """What If-Range may hold: a strong ETag, else the date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def differs(self, other: "Version") -> bool:
        """True where both say something and not the same."""
        return any(
            mine is not None and theirs is not None and mine != theirs
            for mine, theirs in (
                (self.etag, other.etag),
                (self.modified, other.modified),
                (self.total_bytes, other.total_bytes),
            )
        )


class Partial:
    """What has come of a URL so far, in home.corpora/downloads: the bytes, and which version they are of."""

    def __init__(self, url: str, folder: Path) -> None:
        key = digest_of(url)[:16]
        self.path, self.note = folder / f"{key}.part", folder / f"{key}.json"

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version(self) -> Version | None:
        known = read_json(self.note)
        try:
            return Version(**known["version"])
        except (TypeError, KeyError):
            return None

    def begin(self, url: str, version: Version) -> None:
        self.discard()
        write_json(self.note, {"url": redacted(url), "version": vars(version)})

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
