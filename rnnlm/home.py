"""Where things lie under RNNLM_HOME, digests, locks and atomic writes: each rule about files, once."""

import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from rnnlm.errors import HomeError

logger = logging.getLogger(__name__)
COMPLETE = "COMPLETE"  # marker of a finished folder: JSON, file name → sha256
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # the file is not there: damage, not a read error
TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)  # worth another attempt
READ_ATTEMPTS, FIRST_PAUSE_SECONDS = 4, 0.2  # the pause doubles with each attempt
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_TEXT = "No space left on device"  # how DuckDB, Arrow and safetensors word ENOSPC, which has no errno there
T = TypeVar("T")


@dataclass(frozen=True)
class Home:
    """The folder that holds everything the program keeps."""

    root: Path

    @property
    def corpora(self) -> Path:
        return self.root / "corpora"

    @property
    def tokenizers(self) -> Path:
        return self.root / "tokenizers"

    @property
    def datasets(self) -> Path:
        return self.root / "datasets"

    @property
    def shards(self) -> Path:
        """Tokenized shards of datasets not yet finished: what a killed run has done already."""
        return self.root / "shards"

    @property
    def descriptions(self) -> Path:
        return self.root / "descriptions"

    @property
    def ngrams(self) -> Path:
        return self.root / "ngrams"

    @property
    def probes(self) -> Path:
        return self.root / "probes"

    @property
    def scores(self) -> Path:
        """Shards of a bulk scoring not yet finished; what was drawn of finished ones."""
        return self.root / "scores"

    @property
    def references(self) -> Path:
        """What validation text scores, for models whose folder does not say it."""
        return self.root / "references"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def prefect(self) -> Path:
        return self.root / "prefect"

    @property
    def mlflow_database(self) -> Path:
        return self.root / "mlflow.db"

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock `name` between processes; the kernel frees it when its holder dies."""
        folder = self.root / "locks"
        self.make(folder)
        with FileLock(folder / f"{name}.lock"):
            yield

    @contextmanager
    def lock_if_free(self, name: str) -> Iterator[bool]:
        """True with the lock held; False, at once, if another process or thread holds it."""
        folder = self.root / "locks"
        self.make(folder)
        try:
            with FileLock(folder / f"{name}.lock", timeout=0):
                yield True
        except Timeout:
            yield False

    def make(self, folder: Path) -> None:
        """Create a folder of the home. HomeError where it cannot be written to."""
        try:
            self.root.mkdir(mode=0o755, parents=True, exist_ok=True)  # whatever the umask: see find_home
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable-"):
                pass
        except OSError as error:
            raise HomeError(
                f"{folder}: cannot be written to ({error.strerror}).\n"
                "Give a writable folder in the environment variable RNNLM_HOME."
            ) from error


def find_home() -> Home:
    """RNNLM_HOME, else the nearest `.rnnlm/` upwards that only this user can write to, else `.rnnlm/` here."""
    named = os.environ.get("RNNLM_HOME")
    if named:
        return Home(Path(named).expanduser().resolve())
    here = Path.cwd()
    for folder in (here, *here.parents):
        found = folder / ".rnnlm"
        if not found.is_dir():
            continue
        problem = why_not_ours(found)
        if problem is None:
            return Home(found)
        # A home decides which files are loaded: whoever can write to it could run code as this user.
        message = f"{found}: not used as home, because {problem}"
        if folder == here:
            raise HomeError(f"{message}.\nMake it yours (chown), run chmod go-w on it, or set RNNLM_HOME.")
        logger.warning("%s", message)
    return Home(here / ".rnnlm")


def why_not_ours(folder: Path) -> str | None:
    """Why another user could have put something into the folder; None: nobody else could."""
    found = folder.stat()
    if found.st_uid != os.getuid():
        return "another user owns it"
    if found.st_mode & 0o022:
        return f"other users may write to it (mode {found.st_mode & 0o777:o})"
    return None


def digest_of(value: Any) -> str:
    """sha256 of a JSON-able value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def reading(path: Path, read: Callable[[Path], T]) -> T:
    """`read(path)`, repeated after an error that may pass.

    An absent file raises its own error (ABSENT). HomeError if the file is there but cannot be read: that says
    nothing about its content, so callers must not treat it as damage.
    """
    for attempt in range(READ_ATTEMPTS):
        try:
            return read(path)
        except ABSENT:
            raise
        except OSError as error:
            if error.errno in TRANSIENT and attempt + 1 < READ_ATTEMPTS:
                time.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
                continue
            raise HomeError(
                f"{path}: cannot be read ({error.strerror or error}). Nothing was changed.\n"
                "Check the disk or the network share and the file's permissions, then run again."
            ) from error
    raise AssertionError("the last attempt returns or raises")


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes. HomeError if it cannot be read, one of ABSENT if it is not there."""

    def digest(path: Path) -> str:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    return reading(path, digest)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically: never seen half-written."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The file's JSON, or None if it is missing or not JSON. HomeError if it cannot be read."""
    try:
        return json.loads(reading(path, Path.read_bytes))
    except (*ABSENT, ValueError):
        return None


@contextmanager
def atomic_file(final: Path) -> Iterator[Path]:
    """A temporary path beside `final`, synced and renamed onto it when the block succeeds.

    The file gets the permissions that the user's umask gives to new files.
    """
    partial = partial_path(final)
    try:
        partial.touch(exist_ok=False)
        yield partial
        sync(partial)
        partial.replace(final)
        sync(final.parent)
    finally:
        partial.unlink(missing_ok=True)


def partial_path(final: Path) -> Path:
    """A new name beside `final`; remove_partials finds it."""
    return final.parent / f".{final.name}.{secrets.token_hex(4)}"


def remove_partials(final: Path) -> None:
    """Remove what a killed writer of `final` left. Call it under the lock that all writers of `final` hold."""
    for leftover in final.parent.glob(f".{final.name}.*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def drawn_once(picture: Path, draw: Callable[[Path], None], *, anew: bool = False) -> None:
    """A picture, drawn and written atomically if it is missing or to be drawn anew."""
    if anew or not picture.exists():
        with atomic_file(picture) as partial:
            draw(partial)


@contextmanager
def full_disk_explained(home: Home) -> Iterator[None]:
    """Turn a full disk, whichever library met it, into a HomeError that says so."""
    try:
        yield
    except Exception as error:
        if isinstance(error, HomeError) or not is_full_disk(error):
            raise
        raise HomeError(
            f"{home.root}: no space is left on the disk, or on that of the temporary files.\n"
            "Free some space and run again; what is finished is kept."
        ) from error


def is_full_disk(error: BaseException) -> bool:
    """True if the error, or one that caused it, says that a disk or quota is full."""
    cause: BaseException | None = error
    seen: set[int] = set()  # an error may be its own cause
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if getattr(cause, "errno", None) in FULL or FULL_TEXT in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def sync(path: Path) -> None:
    """Make a file's or folder's contents survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mark_complete(folder: Path, apart_from: Collection[str] = ()) -> None:
    """Write the COMPLETE marker: the digest of every file in the folder, without the entries named in apart_from."""
    names = (path for path in folder.iterdir() if path.name not in {COMPLETE, *apart_from})
    files = sorted(file for path in names for file in (path, *path.rglob("*")) if file.is_file())
    for path in files:
        sync(path)
    write_json(folder / COMPLETE, {str(path.relative_to(folder)): file_digest(path) for path in files})


def find_damage(folder: Path, apart_from: Collection[str] = ()) -> str | None:
    """What is wrong with a finished folder, naming the file; None if every file has the digest of its marker.

    Entries named in apart_from are not looked at. HomeError if a file cannot be read: that is not damage.
    """
    try:
        digests = json.loads(reading(folder / COMPLETE, Path.read_bytes))
    except ABSENT:
        return f"{COMPLETE} is missing: it was never finished"
    except ValueError:
        return f"{COMPLETE} is not JSON"
    if not isinstance(digests, dict):
        return f"{COMPLETE} is not a JSON object"
    for name, digest in digests.items():
        if name.split("/")[0] in apart_from:
            continue
        try:
            if file_digest(folder / name) != digest:
                return f"{name} differs from its sha256"
        except (*ABSENT, ValueError):  # ValueError: a damaged marker names no possible file
            return f"{name} is missing"
    return None


def is_complete(folder: Path) -> bool:
    """True if the marker is there and every file it names has its digest. HomeError if one cannot be read."""
    return find_damage(folder) is None


def write_once(home: Home, final: Path, build: Callable[[Path], None], *, force: bool = False) -> bool:
    """Make the content-addressed folder `final` by `build(partial)`, unless its verified content is there.

    Returns True if nothing had to be done. Two processes that want the same folder wait for each other. What is
    damaged or to be replaced stays until its replacement is complete.
    """
    home.make(final.parent)
    with home.lock(f"{final.parent.name}-{final.name}"):
        restore(final)  # after a kill between the two renames below
        remove_partials(final)
        if not force and final.exists():
            damage = find_damage(final)
            if damage is None:
                return True
            logger.warning("%s: %s; it is made again", final, damage)
        partial = partial_path(final)
        partial.mkdir()
        try:
            build(partial)
            mark_complete(partial)
            set_aside(final)
            partial.replace(final)
            sync(final.parent)
        finally:
            restore(final)
            remove_partials(final)
        return False


def set_aside(final: Path) -> None:
    """Rename `final`, if it exists, so that its replacement can be made; restore() brings it back until then."""
    if final.exists():
        final.replace(replaced_path(final))


def restore(final: Path) -> None:
    """Bring back what set_aside renamed, unless its replacement is there."""
    if replaced_path(final).exists() and not final.exists():
        replaced_path(final).replace(final)


def replaced_path(final: Path) -> Path:
    """remove_partials removes it, too."""
    return final.parent / f".{final.name}.replaced"
