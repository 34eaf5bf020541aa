"""The rnnlm home (the folder RNNLM_HOME) with its subfolders and locks, and digests, JSON files and atomic writes."""

import errno
import glob
import hashlib
import json
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rnnlm.errors import HomeError
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.disk_errors import ABSENT, read_with_retries

logger = logging.getLogger(__name__)
HISTORY_DAYS = 30  # The number of days for which the histories of MLflow and Prefect are kept by default.
# The largest number of bytes in the name of a finished file. The names of its temporary versions may be longer, up to
# 255 bytes.
LONGEST_FINAL_BYTES = 240


class Below:
    """A file or folder with a fixed name below the root of a Home.

    Args:
        name: The path below the root.
        kind: The kind of the folder's entries for `rnnlm prune` and `rnnlm backup`. If "", these commands ignore the
            entries.
        lock: The name of the lock that the writers of an entry hold. {} stands for the entry's name. If "", there is no
            lock. By default, the name of the lock begins with the name of the folder.
        stored: Whether finished entries are copied to RNNLM_STORAGE.
    """

    def __init__(self, name: str, kind: str = "", *, lock: str | None = None, stored: bool = False) -> None:
        self.name, self.kind, self.stored = name, kind, stored
        self.lock = f"{name}-{{}}" if lock is None else lock

    def __get__(self, home: "Home", owner: type["Home"]) -> Path:
        return home.root / self.name


@dataclass(frozen=True)
class Home:
    """The rnnlm home, the folder that contains all data of the program."""

    root: Path
    runs = Below("runs", "run", lock="run-{}", stored=True)
    datasets = Below("datasets", "dataset", stored=True)
    descriptions = Below("descriptions", "description")
    # The choices of initial models for training runs, and copies of these models.
    starts = Below("starts", "start")
    # Records about the sources of text, with the version of each source when it was last read.
    notes = Below("corpora/known", "note", lock="")
    corpora = Below("corpora", "corpus", stored=True)
    tokenizers = Below("tokenizers", "tokenizer", stored=True)
    # Finished parts of unfinished tokenizers and datasets, from which a killed run resumes.
    shards = Below("shards", "shards", lock="datasets-{}")
    scores = Below("scores", "scores")  # The shards of unfinished bulk scoring, and the plots of finished bulk scoring.
    ngrams = Below("ngrams", "ngram")
    probes = Below("probes", "probe")
    # Comparisons of several kinds of models. The training runs of a comparison are in `runs`.
    comparisons = Below("comparisons", "comparison", lock="")
    # The scores of validation text for models whose own folder does not contain them.
    references = Below("references", "reference", lock="reference-{}")
    fetched = Below("fetched", "fetched")  # Registered models that were copied from a remote artifact store.
    downloads = Below("corpora/downloads", "download", lock="")
    locks = Below("locks", "lock", lock="")
    verified = Below("verified")  # The sizes and times of files when they were last hashed.
    artifacts = Below("artifacts")
    prefect = Below("prefect")
    mlflow_database = Below("mlflow.db")
    temporary = Below("tmp")  # Temporary files of `rnnlm up`, and the code that torch compiles.
    own_layers = Below("own_layers.json")  # The list of custom layers that were trained in this rnnlm home.

    def lock(self, name: str) -> FileLock:
        """Return a lock across processes, which is held inside a `with` block.

        The lock is released even if the process is killed.
        """
        self.make(self.locks)
        return FileLock(inside(self.locks, f"{name}.lock"))

    @contextmanager
    def lock_if_free(self, name: str) -> Iterator[bool]:
        """Yield True while holding the lock. Yield False at once if another process or thread holds it."""
        try:
            with self.lock(name).acquire(timeout=0):
                yield True
        except Timeout:
            yield False

    def keep_private(self) -> None:
        """Make Prefect's folder and the databases, even those of older versions, accessible only to their owner.

        The files may contain secrets. For instance, prefect.db contains the addresses and passwords of notifications,
        and the key that encrypts them.
        """
        databases = [found for folder in (self.root, self.prefect) for found in folder.glob("*.db*")]
        for path, mode in ((self.prefect, 0o700), *((database, 0o600) for database in databases)):
            # The file may have been deleted in the meantime, or belong to another user.
            with suppress(FileNotFoundError, PermissionError):
                if path.stat().st_mode & 0o077:
                    path.chmod(mode)

    def make(self, folder: Path) -> None:
        """Create a folder of the rnnlm home. Raise HomeError if it is not writable."""
        try:
            # Only the user may write to these two folders, whatever the umask is; see find_home. Folders in between get
            # the mode of the umask.
            for place in (self.root, folder):
                place.mkdir(mode=0o755, parents=True, exist_ok=True)
            self.keep_private()
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable-"):
                pass
        except OSError as error:
            raise HomeError(
                f"{folder}: cannot be written to ({error.strerror}).\n"
                "Give a writable folder in the environment variable RNNLM_HOME."
            ) from error


# All files and folders with fixed names in an rnnlm home.
PLACES = tuple(place for place in vars(Home).values() if isinstance(place, Below))


def expanded(path: str | Path) -> Path:
    """Return the path with `~` and `~user` replaced by the home directories of users.

    The name of an unknown user is left as it is.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  Path.expanduser raises RuntimeError for such a user


def find_home() -> Home:
    """Return the rnnlm home, which is RNNLM_HOME or a folder `.rnnlm/`.

    If the environment variable RNNLM_HOME is not set, this is the nearest `.rnnlm/` in this folder or its parents, or
    else a new one in this folder. An existing `.rnnlm/` is used only if no other user can write to it.
    """
    named = os.environ.get("RNNLM_HOME")
    if named:
        return checked_home(expanded(named).resolve())
    here = Path.cwd()
    for folder in (here, *here.parents):
        found = folder / ".rnnlm"
        if not found.is_dir():
            continue
        problem = why_untrusted(found)
        if problem is None:
            return checked_home(found)
        # Another user who can write to the rnnlm home could run code as this user, because files of the home are
        # executed when they are loaded.
        message = f"{found}: not used as the rnnlm home, because {problem}"
        if folder == here:
            raise HomeError(f"{message}.\nChange its owner with chown or its mode with chmod go-w, or set RNNLM_HOME.")
        logger.warning("%s", message)
    return checked_home(here / ".rnnlm")


def checked_home(root: Path) -> Home:
    """Return the rnnlm home with this root.

    Raise HomeError if the path contains characters that databases interpret, so that they would use another path.
    """
    # DuckDB and SQLite read `?` in the address of a database as the beginning of options, and DuckDB reads a backslash
    # as a slash.
    if {"?", "\\"} & set(str(root)) or not str(root).isprintable():
        raise HomeError(
            f"{ascii(str(root))}: the path of a home must not contain `?`, backslashes or control characters,\n"
            "with which databases would be created elsewhere. Set RNNLM_HOME to another folder."
        )
    return Home(root)


def why_untrusted(folder: Path) -> str | None:
    """Return the reason why another user could have written to the folder, or None if no other user could."""
    found = folder.stat()
    if found.st_uid != os.getuid():
        return "another user owns it"
    if found.st_mode & 0o022:
        return f"other users may write to it (mode {found.st_mode & 0o777:o})"
    return None


def digest_of(value: Any) -> str:
    """Return the sha256 of a JSON-able value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes.

    Raise HomeError if the file cannot be read, or one of ABSENT if it is missing.
    """

    def digest(path: Path) -> str:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    return read_with_retries(path, digest)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the JSON value in a file, or None if it is missing or not JSON. Raise HomeError if it cannot be read."""
    try:
        return json.loads(read_with_retries(path, Path.read_bytes))
    except (*ABSENT, ValueError, RecursionError):
        return None


def size_of(path: Path | None) -> int:
    """Return the number of bytes of a file, or of all files in a folder. Return 0 if it is missing."""
    if path is None:
        return 0
    if path.is_file():
        return path.stat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  a home has many files
            except FileNotFoundError:
                continue
    return total


@contextmanager
def atomic_file(final: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path next to `final`. After the block it is synced to the disk and renamed to `final`.

    The file gets the permissions of any new file under the user's umask. A private file is accessible only to the user.
    If `final` is not a regular file, OSError is raised before the block. For instance, renaming a file to /dev/null
    would replace it for all users.
    """
    if final.exists() and not final.is_file():
        kind = "is a folder" if final.is_dir() else "is a device or a pipe"
        raise OSError(errno.EINVAL, f"{kind}, expected a file", str(final))
    partial = partial_path(final)
    try:
        try:
            partial.touch(0o600 if private else 0o666, exist_ok=False)
        except OSError as error:
            error.filename = str(final)
            raise
        yield partial
        sync(partial)
        partial.replace(final)
        sync(final.parent)
    finally:
        partial.unlink(missing_ok=True)


def partial_path(final: Path) -> Path:
    """Return a new name next to `final`, which remove_partials finds."""
    return final.parent / f"{partial_beginning(final)}{secrets.token_hex(4)}"


def partial_beginning(final: Path) -> str:
    """Return the text with which the names of all partial files of `final` begin.

    A digest replaces the name of `final` if the names would be too long.
    """
    name = final.name if len(os.fsencode(final.name)) <= LONGEST_FINAL_BYTES else digest_of(final.name)[:32]
    return f".{name}."


def remove_partials(final: Path) -> None:
    """Remove partial files of `final` that killed processes have left. The caller must hold the lock of the writers."""
    for leftover in final.parent.glob(f"{glob.escape(partial_beginning(final))}*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def sync(path: Path) -> None:
    """Flush a file or folder to the disk, so that it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
