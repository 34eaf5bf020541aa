"""Complete and incomplete files of earlier downloads, with the versions that the servers have reported."""

from dataclasses import astuple, dataclass
from pathlib import Path

import requests

from rnnlm.storage.home import digest_of, file_digest, read_json, sync, write_json


@dataclass(frozen=True)
class ResourceVersion:
    """The version of a file on a server."""

    etag: str | None
    modified: str | None
    total_bytes: int | None

    @property
    def validator(self) -> str | None:
        """The value for an If-Range header: a strong ETag, or else the date, or None if the server sent neither."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def is_confirmed_by(self, other: "ResourceVersion") -> bool:
        """Return True if `other` has the ETag or date that is the validator of this version."""
        return self.validator is not None and self.validator in (other.etag, other.modified)

    def differs(self, other: "ResourceVersion") -> bool:
        """Return True if the versions differ in a field that both of them have."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def version_of(response: requests.Response) -> ResourceVersion:
    """Return the version in the headers of a response.

    Its size is that of the whole file, even if a range was requested.
    """
    headers = response.headers
    length = headers.get("Content-Length" if response.status_code == 200 else "Content-Range", "")
    total = length.rpartition("/")[2]
    return ResourceVersion(headers.get("ETag"), headers.get("Last-Modified"), int(total) if total.isdigit() else None)


class KeptDownload:
    """The bytes received from a URL and a note about their version, each stored as a file in a folder."""

    def __init__(self, folder: Path, url: str) -> None:
        key = digest_of(url)[:16]
        self.path, self.note = folder / f"{key}.download", folder / f"{key}.json"

    @property
    def size(self) -> int:
        """The number of bytes received."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version(self) -> ResourceVersion | None:
        """The version of the received bytes."""
        try:
            return ResourceVersion(**read_json(self.note)["version"])
        except (TypeError, KeyError):
            return None

    @property
    def whole_sha256(self) -> str | None:
        """The sha256 of the complete file, or None while it is incomplete."""
        return (read_json(self.note) or {}).get("sha256") if self.path.exists() else None

    def begin(self, label: str, version: ResourceVersion) -> None:
        """Discard the received bytes, and begin a file of this version. `label` is the address without secrets."""
        self.discard()
        write_json(self.note, {"url": label, "version": vars(version)})

    def finish(self) -> None:
        """Record that the file is complete."""
        if self.whole_sha256 is None:
            sync(self.path)
            write_json(self.note, {**read_json(self.note), "sha256": file_digest(self.path)})

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def discard_unless_resumable(self, sha256: str | None) -> None:
        """Delete the received bytes if the download cannot be resumed safely.

        Without a validator or an expected sha256, a change of the server's file would not be detected.
        """
        version = self.version
        if version is None or not (version.validator or sha256):
            self.discard()

    def request_headers(self, known: ResourceVersion | None) -> dict[str, str]:
        """Return the headers of a request for the rest of an incomplete file, or for the whole file.

        The server then sends the whole file only if its version differs from that of the kept file or, if no file is
        kept, from `known`.
        """
        version = self.version
        if self.size and not self.whole_sha256:
            confirmed = {"If-Range": version.validator} if version and version.validator else {}
            return {"Range": f"bytes={self.size}-", **confirmed}
        latest = version if self.whole_sha256 else known
        conditions = {"If-None-Match": latest.etag, "If-Modified-Since": latest.modified} if latest else {}
        return {name: value for name, value in conditions.items() if value}
