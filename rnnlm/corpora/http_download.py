"""http(s) downloads that resume, check length and digest, and are complete or absent.

A whole file is kept, so that the same text can be read with other settings. The server is only asked whether it has
changed.
"""

import contextvars
import logging
import math
import os
import random
import re
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import requests

from rnnlm.corpora.http_request import FetchPolicy, TransientError, ask, network_errors_explained, pieces
from rnnlm.display.progress import BYTES, Progress
from rnnlm.display.redaction import redacted
from rnnlm.errors import CorpusError, FetchError, HomeError
from rnnlm.home import digest_of, file_digest, read_json, sync, write_json

logger = logging.getLogger(__name__)
POLICY = FetchPolicy()
CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)$")


@dataclass(frozen=True)
class ResourceVersion:
    """The version of a file on a server."""

    etag: str | None
    modified: str | None
    total_bytes: int | None

    @property
    def validator(self) -> str | None:
        """The value for If-Range: a strong ETag, else the date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def is_confirmed_by(self, other: "ResourceVersion") -> bool:
        """True if the other has the ETag or date that was sent as If-Range."""
        return self.validator is not None and self.validator in (other.etag, other.modified)

    def differs(self, other: "ResourceVersion") -> bool:
        """True if any field that both have differs."""
        return any(
            mine is not None and theirs is not None and mine != theirs
            for mine, theirs in (
                (self.etag, other.etag),
                (self.modified, other.modified),
                (self.total_bytes, other.total_bytes),
            )
        )


class StoredDownload:
    """The bytes received from a URL, in home.corpora/downloads, their version, and once they are whole their sha256."""

    def __init__(self, url: str, folder: Path) -> None:
        key = digest_of(url)[:16]
        self.path, self.note = folder / f"{key}.download", folder / f"{key}.json"

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version(self) -> ResourceVersion | None:
        known = read_json(self.note)
        try:
            return ResourceVersion(**known["version"])
        except (TypeError, KeyError):
            return None

    @property
    def sha256(self) -> str | None:
        """None: the file is not whole."""
        return (read_json(self.note) or {}).get("sha256") if self.path.exists() else None

    def mark_whole(self) -> None:
        write_json(self.note, {**read_json(self.note), "sha256": file_digest(self.path)})

    def begin(self, url: str, version: ResourceVersion) -> None:
        self.discard()
        write_json(self.note, {"url": redacted(url), "version": vars(version)})

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


@dataclass(frozen=True)
class DownloadRequest:
    """A download and its limits."""

    url: str
    sha256: str | None
    policy: FetchPolicy
    known: ResourceVersion | None  # download only if the server has another version
    deadline: float  # time.monotonic()
    abandoned: threading.Event = field(default_factory=threading.Event)  # nobody waits for it any more

    @property
    def label(self) -> str:
        return redacted(self.url)

    def refuse_size(self, byte_count: int) -> None:
        if byte_count > self.policy.maximum_bytes:
            raise CorpusError(
                f"{self.label}: is larger than {self.policy.maximum_bytes:,} bytes (corpus.maximum_download_bytes);\n"
                "raise it to download this file"
            )

    def refuse_delay(self) -> None:
        if time.monotonic() > self.deadline or self.abandoned.is_set():
            raise DownloadTimeoutError(
                f"{self.label}: took more than {self.policy.maximum_seconds:,.0f} s "
                "(corpus.maximum_download_seconds);\n"
                "run again (if the server can resume, the received bytes are kept), or raise it"
            )


class DownloadTimeoutError(FetchError):
    """No time is left for another attempt."""


def fetch(
    url: str,
    target: Path,
    downloads: Path,
    sha256: str | None = None,
    policy: FetchPolicy | None = None,
    known: ResourceVersion | None = None,
) -> ResourceVersion | None:
    """Download `url` to `target`. `downloads`, on the same disk, holds files to resume, and whole ones to use again.

    Returns the version received, or None, without a target, if the server still has the known one. A whole file is
    used without a request if it has the sha256, and with a warning if nothing is known and the server is unavailable.
    FetchError after the last attempt, worth a retry later; CorpusError if a retry is pointless.
    """
    policy = policy or POLICY
    stored = StoredDownload(url, downloads)
    request = DownloadRequest(url, sha256, policy, known, time.monotonic() + policy.maximum_seconds)
    if stored.sha256 and file_digest(stored.path) != stored.sha256:
        logger.warning("%s: differs from its sha256; it is downloaded again", stored.path)
        stored.discard()
    draw = random.Random()  # full jitter: clients that failed together do not retry together
    for attempt in range(1, policy.attempts + 1):
        if sha256 and stored.sha256 == sha256:
            break
        resumed = stored.size > 0
        try:
            with network_errors_explained(request.label):
                unchanged = not within_deadline(request, lambda: receive(request, stored))
            if unchanged:
                return None
            check_digest(request, stored)
            break
        except TransientError as error:
            if attempt == policy.attempts:
                forget_what_cannot_be_resumed(stored, sha256)
                if stored.sha256 and known is None:
                    logger.warning("%s\nThe file that was downloaded before is used.", error)
                    break
                kept = f", {stored.size:,} bytes are kept for the next attempt" if stored.size else ""
                raise FetchError(f"{error}\n({attempt} attempts{kept})") from error
            longest = min(policy.maximum_wait_seconds, policy.backoff_seconds * 2 ** (attempt - 1))
            wait = draw.uniform(0, longest)
            if error.after_seconds is not None:
                wait = min(policy.maximum_wait_seconds, max(wait, error.after_seconds))
            logger.warning("%s; attempt %d of %d in %.1f s", error, attempt + 1, policy.attempts, wait)
            time.sleep(min(wait, max(0.0, request.deadline - time.monotonic())))
            request.refuse_delay()
        except DownloadTimeoutError:
            forget_what_cannot_be_resumed(stored, sha256)
            raise
        except CorpusError:
            stored.discard()
            if not resumed or attempt == policy.attempts:
                raise
            logger.warning("%s: the kept bytes do not fit; starting over", request.label)
    version = stored.version
    if stored.sha256 is None:
        sync(stored.path)
        stored.mark_whole()
    try:
        os.link(stored.path, target)
    except OSError:  # not on this file system
        shutil.copyfile(stored.path, target)
    forget_what_cannot_be_resumed(stored, sha256)
    return version


def within_deadline(request: DownloadRequest, work: Callable[[], bool]) -> bool:
    """`work()` in a thread, so that a server that sends its answer's head a byte at a time is left at the deadline.

    Sockets have limits between two reads alone. An abandoned thread writes nothing any more: see refuse_delay.
    """
    future: Future[bool] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    try:
        remaining = request.deadline - time.monotonic()
        return future.result(None if math.isinf(remaining) else max(0.0, remaining))
    except TimeoutError:
        if future.done():  # the work's own
            raise
        request.abandoned.set()
        request.refuse_delay()
        raise AssertionError from None
    except KeyboardInterrupt:
        request.abandoned.set()
        raise


def receive(request: DownloadRequest, stored: StoredDownload) -> bool:
    """One attempt to get the rest of the file, or all of it. False if the server still has the known version.

    TransientError if it broke off.
    """
    forget_what_cannot_be_resumed(stored, request.sha256)
    offset, begun = stored.size, stored.version
    whole = begun if stored.sha256 else None
    headers = {}
    if offset and not whole:
        headers["Range"] = f"bytes={offset}-"
        if begun and begun.validator:
            headers["If-Range"] = begun.validator
    elif latest := whole or request.known:
        headers |= {"If-None-Match": latest.etag} if latest.etag else {}
        headers |= {"If-Modified-Since": latest.modified} if latest.modified else {}
    with ask(request.url, headers, request.policy) as response:
        request.refuse_delay()
        begin, version = range_of(response)
        if response.status_code == 304:
            if not headers.keys() & {"If-None-Match", "If-Modified-Since"}:
                raise CorpusError(
                    f"{request.label}: the server answered 304 to a request without a condition; try later"
                )
            return whole is not None and (request.known is None or whole.differs(request.known))
        if response.status_code == 200:
            offset = 0
            stored.begin(request.url, version)
        elif not offset or begun is None or begun.differs(version):
            stored.discard()
            raise TransientError(f"{request.label}: the file on the server has changed; run again")
        elif response.status_code == 416 and version.total_bytes == offset:
            return True  # it was complete
        elif not (request.sha256 or begun.is_confirmed_by(version)):  # without either, it may be of another version
            stored.discard()
            raise TransientError(f"{request.label}: the server sent a rest without the ETag or date that was asked for")
        elif begin != offset:
            stored.discard()
            raise TransientError(f"{request.label}: the server sent another range than requested; run again")
        else:
            logger.info("%s: resumed at byte %s", request.label, f"{offset:,}")
        check_space(request, stored.path, offset, version.total_bytes)
        append(response, stored.path, offset, version.total_bytes, request)
    if version.total_bytes is not None and stored.size != version.total_bytes:
        raise TransientError(
            f"{request.label}: received {stored.size} bytes, expected {version.total_bytes}; run again"
        )
    return True


def check_space(request: DownloadRequest, path: Path, offset: int, total: int | None) -> None:
    """CorpusError if the file is too large, HomeError if the disk is too small, before reading a byte."""
    if total is None:
        return
    request.refuse_size(total)
    free = shutil.disk_usage(path.parent).free
    if total - offset > free:
        raise HomeError(
            f"{request.label}: {total - offset:,} bytes remain, and {path.parent} has room for {free:,};\n"
            "free some space, or set RNNLM_HOME to a larger disk"
        )


def range_of(response: requests.Response) -> tuple[int | None, ResourceVersion]:
    """The offset at which the response begins, and its version."""
    headers = response.headers
    if response.status_code == 200:
        length = headers.get("Content-Length", "")
        begin: int | None = 0
        total = int(length) if length.isdigit() else None
    else:
        match = CONTENT_RANGE.match(headers.get("Content-Range", ""))
        begin = int(match[1]) if match and match[1] else None
        total = int(match[2]) if match and match[2] != "*" else None
    return begin, ResourceVersion(headers.get("ETag"), headers.get("Last-Modified"), total)


def append(response: requests.Response, path: Path, offset: int, total: int | None, request: DownloadRequest) -> None:
    """Write the body as it arrives."""
    with Progress(request.label, total, BYTES, done=offset) as progress, path.open("ab") as stream:
        for piece in pieces(response):
            request.refuse_delay()
            try:
                stream.write(piece)
            except OSError as error:
                raise HomeError(f"{path}: cannot be written ({error.strerror}); free some space") from error
            offset += len(piece)
            request.refuse_size(offset)
            progress.update(len(piece))


def forget_what_cannot_be_resumed(stored: StoredDownload, sha256: str | None) -> None:
    """Without a validator or a digest to check, what the server has may be another file: start over."""
    known = stored.version
    if known is None or not (known.validator or sha256):
        stored.discard()


def check_digest(request: DownloadRequest, stored: StoredDownload) -> None:
    if request.sha256 and (got := file_digest(stored.path)) != request.sha256:
        raise CorpusError(
            f"{request.label}: sha256 {got[:12]}, expected {request.sha256[:12]};\n"
            "the file has changed or is damaged; if you trust it, correct corpus.sha256"
        )
