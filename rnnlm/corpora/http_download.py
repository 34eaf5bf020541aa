"""http(s) downloads that resume, check length and digest, and are complete or absent.

A whole file is kept, so that the same text can be read with other settings. The server is only asked whether it has
changed.
"""

import contextvars
import logging
import math
import os
import random
import shutil
import threading
import time
from concurrent.futures import Future
from dataclasses import astuple, dataclass
from pathlib import Path

import requests

from rnnlm.corpora.http_request import FetchPolicy, TransientError, ask, network_errors_explained, pieces
from rnnlm.display.progress import BYTES, Progress
from rnnlm.errors import CorpusError, FetchError, HomeError
from rnnlm.storage.home import digest_of, file_digest, read_json, sync, write_json
from rnnlm.storage.redaction import redacted

logger = logging.getLogger(__name__)
POLICY = FetchPolicy()


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
        pairs = zip(astuple(self), astuple(other), strict=True)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


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
    download = Download(url, downloads, sha256, policy or POLICY, known)
    if not download.complete():
        return None
    version = download.version
    if download.whole_sha256 is None:
        sync(download.path)
        write_json(download.note, {**read_json(download.note), "sha256": file_digest(download.path)})
    try:
        os.link(download.path, target)
    except OSError:  # not on this file system
        shutil.copyfile(download.path, target)
    download.forget_what_cannot_be_resumed()
    return version


class Download:
    """The file at a URL, and the bytes received from it, which stay in a folder with a note about their version."""

    def __init__(
        self, url: str, folder: Path, sha256: str | None, policy: FetchPolicy, known: ResourceVersion | None
    ) -> None:
        """known: the file is only wanted if the server has another version."""
        self.url, self.label, self.sha256, self.policy, self.known = url, redacted(url), sha256, policy, known
        key = digest_of(url)[:16]
        self.path, self.note = folder / f"{key}.download", folder / f"{key}.json"
        self.deadline = time.monotonic() + policy.maximum_seconds
        self.abandoned = threading.Event()  # nobody waits for it any more

    @property
    def size(self) -> int:
        """Bytes received."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version(self) -> ResourceVersion | None:
        """The version of the bytes received."""
        try:
            return ResourceVersion(**read_json(self.note)["version"])
        except (TypeError, KeyError):
            return None

    @property
    def whole_sha256(self) -> str | None:
        """The sha256 of the whole file; None as long as it is not whole."""
        return (read_json(self.note) or {}).get("sha256") if self.path.exists() else None

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def forget_what_cannot_be_resumed(self) -> None:
        """Without a validator or a digest to check, the server's file may be another one: start over."""
        version = self.version
        if version is None or not (version.validator or self.sha256):
            self.discard()

    def complete(self) -> bool:
        """Receive the file, in several attempts. False if the server still has the known version."""
        if self.whole_sha256 and file_digest(self.path) != self.whole_sha256:
            logger.warning("%s: differs from its sha256; it is downloaded again", self.path)
            self.discard()
        for attempt in range(1, self.policy.attempts + 1):
            if self.sha256 and self.whole_sha256 == self.sha256:
                return True
            resumed, is_last = self.size > 0, attempt == self.policy.attempts
            try:
                with network_errors_explained(self.label):
                    arrived = self.within_deadline()
                if arrived:
                    self.check_digest()
                return arrived
            except TransientError as error:
                if is_last:
                    return self.use_earlier(error)
                # Full jitter: clients that failed together do not retry together.
                longest = min(self.policy.maximum_wait_seconds, self.policy.backoff_seconds * 2 ** (attempt - 1))
                wait = max(random.Random().uniform(0, longest), error.after_seconds or 0.0)
                wait = min(wait, self.policy.maximum_wait_seconds)
                logger.warning("%s; attempt %d of %d in %.1f s", error, attempt + 1, self.policy.attempts, wait)
                time.sleep(min(wait, max(0.0, self.deadline - time.monotonic())))
                self.refuse_delay()
            except FetchError:  # no time is left
                self.forget_what_cannot_be_resumed()
                raise
            except CorpusError:
                self.discard()
                if not resumed or is_last:
                    raise
                logger.warning("%s: the kept bytes do not fit; starting over", self.label)
        raise AssertionError("unreachable")

    def use_earlier(self, error: TransientError) -> bool:
        """True if a whole file from an earlier run can be used although the server is unavailable; else FetchError."""
        self.forget_what_cannot_be_resumed()
        if self.whole_sha256 and self.known is None:
            logger.warning("%s\nThe file that was downloaded before is used.", error)
            return True
        kept = f", {self.size:,} bytes are kept for the next attempt" if self.size else ""
        raise FetchError(f"{error}\n({self.policy.attempts} attempts{kept})") from error

    def within_deadline(self) -> bool:
        """`receive()` in a thread, so that a server that sends its headers a byte at a time is left at the deadline.

        Sockets only have limits between two reads. An abandoned thread writes nothing any more: see refuse_delay.
        """
        future: Future[bool] = Future()

        def run() -> None:
            try:
                future.set_result(self.receive())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
        try:
            remaining = self.deadline - time.monotonic()
            return future.result(None if math.isinf(remaining) else max(0.0, remaining))
        except TimeoutError:
            if future.done():  # a timeout of receive()
                raise
            self.abandoned.set()
            self.refuse_delay()
            raise AssertionError from None
        except KeyboardInterrupt:
            self.abandoned.set()
            raise

    def receive(self) -> bool:
        """One attempt to get the rest of the file, or all of it. False if the server still has the known version.

        TransientError if it broke off.
        """
        self.forget_what_cannot_be_resumed()
        offset, begun = self.size, self.version
        whole = begun if self.whole_sha256 else None
        headers = {}
        if offset and not whole:
            headers["Range"] = f"bytes={offset}-"
            if begun and begun.validator:
                headers["If-Range"] = begun.validator
        elif latest := whole or self.known:
            headers |= {"If-None-Match": latest.etag} if latest.etag else {}
            headers |= {"If-Modified-Since": latest.modified} if latest.modified else {}
        with ask(self.url, headers, self.policy) as response:
            self.refuse_delay()
            if response.status_code == 304:
                if not headers.keys() & {"If-None-Match", "If-Modified-Since"}:
                    raise CorpusError(
                        f"{self.label}: the server answered 304 to a request without a condition; try later"
                    )
                return whole is not None and (self.known is None or whole.differs(self.known))
            version = version_of(response)
            if response.status_code == 200:
                offset = 0
                self.discard()
                write_json(self.note, {"url": self.label, "version": vars(version)})
            elif begun is None or not self.is_continued(response, version, begun, offset):
                self.discard()
                raise TransientError(f"{self.label}: the server does not continue the file as it began; run again")
            elif response.status_code == 206:
                logger.info("%s: resumed at byte %s", self.label, f"{offset:,}")
            if response.status_code != 416:  # there it was complete
                self.check_space(offset, version.total_bytes)
                self.append(response, offset, version.total_bytes)
        if version.total_bytes is not None and self.size != version.total_bytes:
            raise TransientError(f"{self.label}: received {self.size} bytes, expected {version.total_bytes}; run again")
        return True

    def check_digest(self) -> None:
        if self.sha256 and (got := file_digest(self.path)) != self.sha256:
            raise CorpusError(
                f"{self.label}: sha256 {got[:12]}, expected {self.sha256[:12]};\n"
                "the file has changed or is damaged; if you trust it, correct corpus.sha256"
            )

    def is_continued(
        self, response: requests.Response, version: ResourceVersion, begun: ResourceVersion, offset: int
    ) -> bool:
        """True if an answer to a request for the bytes from `offset` on continues the version that was begun."""
        if not offset or begun.differs(version):
            return False
        if response.status_code == 416:
            return version.total_bytes == offset
        starts_there = response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
        return starts_there and (self.sha256 is not None or begun.is_confirmed_by(version))

    def check_space(self, offset: int, total: int | None) -> None:
        """CorpusError if the file is too large, HomeError if the disk is too small, before reading a byte."""
        if total is None:
            return
        self.refuse_size(total)
        free = shutil.disk_usage(self.path.parent).free
        if total - offset > free:
            raise HomeError(
                f"{self.label}: {total - offset:,} bytes remain, and {self.path.parent} has room for {free:,};\n"
                "free some space, or set RNNLM_HOME to a larger disk"
            )

    def append(self, response: requests.Response, offset: int, total: int | None) -> None:
        """Write the body as it arrives."""
        with Progress(self.label, total, BYTES, done=offset) as progress, self.path.open("ab") as stream:
            for piece in pieces(response):
                self.refuse_delay()
                try:
                    stream.write(piece)
                except OSError as error:
                    raise HomeError(f"{self.path}: cannot be written ({error.strerror}); free some space") from error
                offset += len(piece)
                self.refuse_size(offset)
                progress.update(len(piece))

    def refuse_size(self, byte_count: int) -> None:
        if byte_count > self.policy.maximum_bytes:
            raise CorpusError(
                f"{self.label}: is larger than {self.policy.maximum_bytes:,} bytes (corpus.maximum_download_bytes);\n"
                "raise it to download this file"
            )

    def refuse_delay(self) -> None:
        if time.monotonic() > self.deadline or self.abandoned.is_set():
            raise FetchError(
                f"{self.label}: took more than {self.policy.maximum_seconds:,.0f} s "
                "(corpus.maximum_download_seconds);\n"
                "run again (if the server can resume, the received bytes are kept), or raise it"
            )


def version_of(response: requests.Response) -> ResourceVersion:
    """The version that the headers tell; its size is that of the whole file, not of the range."""
    headers = response.headers
    length = headers.get("Content-Length" if response.status_code == 200 else "Content-Range", "")
    total = length.rpartition("/")[2]
    return ResourceVersion(headers.get("ETag"), headers.get("Last-Modified"), int(total) if total.isdigit() else None)
