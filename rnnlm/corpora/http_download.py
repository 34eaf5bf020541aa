"""Downloads over http(s) that can be resumed. The length and the digest of each downloaded file are checked.

A complete file is stored, so that its text can be read again with other settings. The next run only asks the server
whether the file has changed.
"""

import logging
import os
import random
import shutil
import time
from enum import Enum
from pathlib import Path

import requests

from rnnlm.corpora.download_deadline import Deadline
from rnnlm.corpora.http_request import FetchPolicy, TransientError, ask, network_errors_explained, pieces
from rnnlm.corpora.kept_download import KeptDownload, ResourceVersion, version_of
from rnnlm.display.progress import BYTES, Progress
from rnnlm.errors import CorpusError, FetchError, HomeError
from rnnlm.storage.home import file_digest
from rnnlm.storage.redaction import redacted

logger = logging.getLogger(__name__)
POLICY = FetchPolicy()


def fetch(
    url: str,
    target: Path,
    downloads: Path,
    sha256: str | None = None,
    policy: FetchPolicy | None = None,
    known: ResourceVersion | None = None,
) -> ResourceVersion | None:
    """Download `url` to `target`. Return the received version, or None if the server still has version `known`.

    A complete file with the expected sha256 is used without a request. If no version is known and the server is
    unavailable, a complete file that an earlier run downloaded is used, with a warning. If all attempts fail, raise
    FetchError if a later run may succeed, otherwise CorpusError.

    Args:
        downloads: A folder on the same disk as `target`, with incomplete and complete files.
        known: The version of the text that is already stored.
    """
    download = Download(url, downloads, sha256, policy or POLICY, known)
    if not download.complete():
        return None
    kept = download.kept
    version = kept.version
    kept.finish()
    try:
        os.link(kept.path, target)
    except OSError:  # The file is copied, because this file system does not support hard links.
        shutil.copyfile(kept.path, target)
    kept.discard_unless_resumable(sha256)
    return version


class Reaction(Enum):
    """The possible reactions to a response of the server. Each value gives the reason for the reaction."""

    NOTHING = "the server still has the known version"
    KEEP = "the kept file is whole and current"
    RESUME = "the body continues the kept file"
    STORE = "the body is the whole file"
    START_OVER = "the answer does not fit the kept file"


class Download:
    """The attempts to download the file at a URL completely to the folder of downloads."""

    def __init__(
        self, url: str, folder: Path, sha256: str | None, policy: FetchPolicy, known: ResourceVersion | None
    ) -> None:
        """Prepare a download.

        If `known` is given, the file is only downloaded if the server has another version of it.
        """
        self.url, self.label, self.sha256, self.policy, self.known = url, redacted(url), sha256, policy, known
        self.kept = KeptDownload(folder, url)
        self.deadline = Deadline(self.label, policy.maximum_seconds)

    def complete(self) -> bool:
        """Download the file in several attempts. Return False if the server still has version `known`."""
        kept = self.kept
        if kept.whole_sha256 and file_digest(kept.path) != kept.whole_sha256:
            logger.warning("%s: the kept file differs from its sha256, so the file is downloaded again", kept.path)
            kept.discard()
        for attempt in range(1, self.policy.attempts + 1):
            if self.sha256 and kept.whole_sha256 == self.sha256:
                return True
            resumed, is_last = kept.size > 0, attempt == self.policy.attempts
            try:
                with network_errors_explained(self.label):
                    arrived = self.deadline.enforce(self.receive)
                if arrived:
                    self.check_digest()
                return arrived
            except TransientError as error:
                if is_last:
                    return self.use_earlier(error)
                self.wait(attempt, error)
            except FetchError:  # No further attempt is made, because the time for the download is over.
                kept.discard_unless_resumable(self.sha256)
                raise
            except CorpusError:
                kept.discard()
                if not resumed or is_last:
                    raise
                logger.warning(
                    "%s: the rest does not fit the bytes that were received earlier; the download starts over",
                    self.label,
                )
        raise AssertionError("unreachable")

    def use_earlier(self, error: TransientError) -> bool:
        """Return True if a complete file that an earlier run downloaded can be used while the server is unavailable.

        Raise FetchError if there is no such file.
        """
        self.kept.discard_unless_resumable(self.sha256)
        if self.kept.whole_sha256 and self.known is None:
            logger.warning("%s\nThe file that an earlier run downloaded is used.", error)
            return True
        size = self.kept.size
        kept = f", {size:,} bytes are kept for the next attempt" if size else ""
        raise FetchError(f"{error}\n({self.policy.attempts} attempts{kept})") from error

    def wait(self, attempt: int, error: TransientError) -> None:
        """Sleep before the next attempt, as long as the server demands but within the configured limits."""
        policy = self.policy
        # The wait is random (full jitter), so that clients that failed at the same time do not retry at the same time.
        longest = min(policy.maximum_wait_seconds, policy.backoff_seconds * 2 ** (attempt - 1))
        seconds = max(random.Random().uniform(0, longest), error.after_seconds or 0.0)
        seconds = min(seconds, policy.maximum_wait_seconds)
        logger.warning("%s; attempt %d of %d begins in %.1f s", error, attempt + 1, policy.attempts, seconds)
        time.sleep(min(seconds, self.deadline.remaining_seconds))
        self.deadline.check()

    def receive(self) -> bool:
        """Try once to download the rest of the file, or all of it.

        Return False if the server still has version `known`. Raise TransientError if the connection breaks.
        """
        kept = self.kept
        kept.discard_unless_resumable(self.sha256)
        headers = kept.request_headers(self.known)
        with ask(self.url, headers, self.policy) as response:
            self.deadline.check()
            version = version_of(response)
            reaction = self.reaction(headers, response, version)
            if reaction in (Reaction.NOTHING, Reaction.KEEP):
                return reaction is Reaction.KEEP
            if reaction is Reaction.START_OVER:
                kept.discard()
                raise TransientError(
                    f"{self.label}: the server's file does not fit the bytes that were received earlier; run again"
                )
            if reaction is Reaction.STORE:
                kept.begin(self.label, version)
            else:
                logger.info("%s: resumed at byte %s", self.label, f"{kept.size:,}")
            self.append(response, version.total_bytes)
        if version.total_bytes is not None and kept.size != version.total_bytes:
            raise TransientError(f"{self.label}: received {kept.size} bytes, expected {version.total_bytes}; run again")
        return True

    def reaction(self, headers: dict[str, str], response: requests.Response, version: ResourceVersion) -> Reaction:
        """Return the reaction to the server's response to a request with these headers.

        | kept file  | 200   | 206                    | 304                     | 416                      |
        |------------|-------|------------------------|-------------------------|--------------------------|
        | none       | STORE | START_OVER             | NOTHING                 | START_OVER               |
        | incomplete | STORE | RESUME, or START_OVER  | CorpusError             | KEEP if all bytes of the |
        |            |       | if the body does not   |                         | server's file were       |
        |            |       | continue the kept file |                         | received, else           |
        |            |       |                        |                         | START_OVER               |
        | complete   | STORE | START_OVER             | KEEP, or NOTHING if the | as for an incomplete     |
        |            |       |                        | kept file has version   | file                     |
        |            |       |                        | `known`                 |                          |

        Raise CorpusError for a 304 if the headers contain no condition.
        """
        kept, begun, status = self.kept, self.kept.version, response.status_code
        if status == 200:
            return Reaction.STORE
        if status == 304:
            if headers.keys().isdisjoint(("If-None-Match", "If-Modified-Since")):
                raise CorpusError(f"{self.label}: the server answered 304 to an unconditional request; try again later")
            is_wanted = self.known is None or (begun is not None and begun.differs(self.known))
            return Reaction.KEEP if kept.whole_sha256 and is_wanted else Reaction.NOTHING
        if begun is None or not kept.size or begun.differs(version):
            return Reaction.START_OVER
        if status == 416:
            return Reaction.KEEP if version.total_bytes == kept.size else Reaction.START_OVER
        starts_there = response.headers.get("Content-Range", "").startswith(f"bytes {kept.size}-")
        is_confirmed = self.sha256 is not None or begun.is_confirmed_by(version)
        return Reaction.RESUME if starts_there and is_confirmed else Reaction.START_OVER

    def append(self, response: requests.Response, total: int | None) -> None:
        """Append the body of the response to the kept file as it arrives.

        `total` is the number of bytes of the whole file, or None if the server does not report it.
        """
        kept = self.kept
        self.check_space(total)
        with Progress(self.label, total, BYTES, done=kept.size) as progress, kept.path.open("ab") as stream:
            for piece in pieces(response):
                self.deadline.check()
                try:
                    stream.write(piece)
                except OSError as error:
                    raise HomeError(f"{kept.path}: cannot be written ({error.strerror}); free some space") from error
                self.refuse_size(stream.tell())
                progress.update(len(piece))

    def check_space(self, total: int | None) -> None:
        """Raise CorpusError if the file is too large, or HomeError if the disk is too small, before reading a byte."""
        if total is None:
            return
        self.refuse_size(total)
        missing, folder = total - self.kept.size, self.kept.path.parent
        free = shutil.disk_usage(folder).free
        if missing > free:
            raise HomeError(
                f"{self.label}: {missing:,} bytes are still to be received, and {folder} has room for {free:,};\n"
                "free some space, or set RNNLM_HOME to a larger disk"
            )

    def refuse_size(self, byte_count: int) -> None:
        if byte_count > self.policy.maximum_bytes:
            raise CorpusError(
                f"{self.label}: is larger than {self.policy.maximum_bytes:,} bytes;\n"
                "raise corpus.maximum_download_bytes to download this file"
            )

    def check_digest(self) -> None:
        if self.sha256 and (got := file_digest(self.kept.path)) != self.sha256:
            raise CorpusError(
                f"{self.label}: sha256 {got[:12]}, expected {self.sha256[:12]};\n"
                "the file has changed or is damaged; if you trust the new file, correct corpus.sha256"
            )
