"""Plain http(s) downloads: resumed where they broke off, length and digest checked, whole or absent."""

import logging
import random
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from tqdm import tqdm

from rnnlm.corpora.requesting import FetchPolicy, TransientError, ask, network_errors_told, pieces
from rnnlm.errors import CorpusError, FetchError, HomeError
from rnnlm.home import digest_of, file_digest, read_json, sync, write_json

logger = logging.getLogger(__name__)
POLICY = FetchPolicy()
LOG_EVERY_SECONDS = 10.0
CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)$")


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
        write_json(self.note, {"url": url, "version": vars(version)})

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def fetch(
    url: str, target: Path, downloads: Path, sha256: str | None = None, policy: FetchPolicy | None = None
) -> None:
    """Download `url` to `target`, both on the disk of `downloads`, where an unfinished file waits to be resumed.

    FetchError after the last attempt: worth another try later. CorpusError: it is not.
    """
    policy = policy or POLICY
    partial = Partial(url, downloads)
    draw = random.Random()  # full jitter: many clients that failed together do not come again together
    for attempt in range(1, policy.attempts + 1):
        resumed = partial.size > 0
        try:
            with network_errors_told(url):
                receive(url, partial, sha256, policy)
            check_digest(url, partial, sha256)
            break
        except TransientError as error:
            if attempt == policy.attempts:
                forget_what_cannot_be_resumed(partial, sha256)
                kept = f", {partial.size:,} bytes are kept for the next" if partial.size else ""
                raise FetchError(f"{error}\n({attempt} attempts{kept})") from error
            longest = min(policy.maximum_wait_seconds, policy.backoff_seconds * 2 ** (attempt - 1))
            wait = draw.uniform(0, longest)
            if error.after_seconds is not None:
                wait = min(policy.maximum_wait_seconds, max(wait, error.after_seconds))
            logger.warning("%s; attempt %d of %d in %.1f s", error, attempt + 1, policy.attempts, wait)
            time.sleep(wait)
        except CorpusError:
            partial.discard()
            if not resumed or attempt == policy.attempts:
                raise
            logger.warning("%s: what was kept does not fit; starting over", url)
    sync(partial.path)
    partial.path.replace(target)
    partial.discard()


def receive(url: str, partial: Partial, sha256: str | None, policy: FetchPolicy) -> None:
    """One attempt: the rest of the file, or all of it. TransientError where it broke off."""
    forget_what_cannot_be_resumed(partial, sha256)
    offset, known = partial.size, partial.version
    headers = {}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if known and known.validator:
            headers["If-Range"] = known.validator
    with ask(url, headers, policy) as response:
        begin, version = range_of(response)
        if response.status_code == 200:
            offset = 0
            partial.begin(url, version)
        elif not offset or known is None or known.differs(version):
            partial.discard()
            raise TransientError(f"{url}: the file on the server has changed; run again")
        elif response.status_code == 416 and version.total_bytes == offset:
            return  # it was whole already
        elif begin != offset:
            partial.discard()
            raise TransientError(f"{url}: the server sent another range than asked for; run again")
        else:
            logger.info("%s: resumed at byte %s", url, f"{offset:,}")
        append(response, partial.path, offset, version.total_bytes, url)
    if version.total_bytes is not None and partial.size != version.total_bytes:
        raise TransientError(f"{url}: {partial.size} bytes came, expected {version.total_bytes}; run again")


def range_of(response: requests.Response) -> tuple[int | None, Version]:
    """The offset that the answer begins at, and the version it is of."""
    headers = response.headers
    if response.status_code == 200:
        length = headers.get("Content-Length", "")
        begin: int | None = 0
        total = int(length) if length.isdigit() else None
    else:
        match = CONTENT_RANGE.match(headers.get("Content-Range", ""))
        begin = int(match[1]) if match and match[1] else None
        total = int(match[2]) if match and match[2] != "*" else None
    return begin, Version(headers.get("ETag"), headers.get("Last-Modified"), total)


def append(response: requests.Response, path: Path, offset: int, total: int | None, url: str) -> None:
    """Write the body as it comes, with a bar on a terminal and a line every ten seconds elsewhere."""
    next_line = time.monotonic() + LOG_EVERY_SECONDS
    bar: Any = tqdm(
        total=total, initial=offset, desc="download", unit="B", unit_scale=True, disable=not sys.stderr.isatty()
    )
    with bar, path.open("ab") as stream:
        for piece in pieces(response):
            try:
                stream.write(piece)
            except OSError as error:
                raise HomeError(f"{path}: cannot be written ({error.strerror}); free some space") from error
            offset += len(piece)
            bar.update(len(piece))
            if bar.disable and time.monotonic() >= next_line:
                next_line = time.monotonic() + LOG_EVERY_SECONDS
                of = f" of {total / 1e6:,.1f}" if total else ""
                logger.info("%s: %.1f%s MB", url, offset / 1e6, of)


def forget_what_cannot_be_resumed(partial: Partial, sha256: str | None) -> None:
    """Without a validator nobody knows that the rest belongs to the beginning, unless a digest will tell."""
    known = partial.version
    if known is None or not (known.validator or sha256):
        partial.discard()


def check_digest(url: str, partial: Partial, sha256: str | None) -> None:
    if sha256 and (got := file_digest(partial.path)) != sha256:
        raise CorpusError(
            f"{url}: sha256 {got[:12]}, expected {sha256[:12]};\n"
            "the file has changed or is damaged: correct corpus.sha256 if you trust it"
        )
