"""Unfinished downloads on disk: the bytes received and the version of the file."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.home import digest_of, read_json, write_json
from rnnlm.redaction import redacted


@dataclass(frozen=True)
class Version:
    """The version of a file on a server."""

    etag: str | None
    modified: str | None
    total_bytes: int | None

    @property
    def validator(self) -> str | None:
        """The value for If-Range: a strong ETag, else the date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def differs(self, other: "Version") -> bool:
        """True if any field that both have differs."""
        return any(
            mine is not None and theirs is not None and mine != theirs
            for mine, theirs in (
                (self.etag, other.etag),
                (self.modified, other.modified),
                (self.total_bytes, other.total_bytes),
            )
        )


class Partial:
    """The bytes received from a URL, in home.corpora/downloads, and their version."""

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
