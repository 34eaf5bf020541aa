"""The folder RNNLM_HOME: its folders and locks; digests, JSON and atomic writes."""

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
HISTORY_DAYS = 30  # how long histories of MLflow and Prefect are kept, by default
LONGEST_FINAL_BYTES = 240  # of a file's name; that of its partial writes is longer, and at most 255


class Below:
    """A file or folder of fixed name below the root of a Home.

    kind: of each entry of the folder, for `rnnlm prune` and `rnnlm backup`; "" if the entries are not theirs.
    lock: of an entry's writers, with {} for its name; "" if there is none. By default it begins with the folder's name.
    stored: finished entries are copied to RNNLM_STORAGE.
    """

    def __init__(self, name: str, kind: str = "", *, lock: str | None = None, stored: bool = False) -> None:
        self.name, self.kind, self.stored = name, kind, stored
        self.lock = f"{name}-{{}}" if lock is None else lock

    def __get__(self, home: "Home", owner: type["Home"]) -> Path:
        return home.root / self.name


@dataclass(frozen=True)
class Home:
    """The folder that holds everything the program keeps."""

    root: Path
    runs = Below("runs", "run", lock="run-{}", stored=True)
    datasets = Below("datasets", "dataset", stored=True)
    descriptions = Below("descriptions", "description")
    starts = Below("starts", "start")  # which model each run continues from, and copies of those models
    notes = Below("corpora/known", "note", lock="")  # about the state of a source
    corpora = Below("corpora", "corpus", stored=True)
    tokenizers = Below("tokenizers", "tokenizer", stored=True)
    # Finished pieces of unfinished tokenizers and datasets: a killed run resumes from them.
    shards = Below("shards", "shards", lock="datasets-{}")
    scores = Below("scores", "scores")  # shards of unfinished bulk scorings, and plots of finished ones
    ngrams = Below("ngrams", "ngram")
    probes = Below("probes", "probe")
    comparisons = Below("comparisons", "comparison", lock="")  # of kinds of models; their runs are in `runs`
    # Scores of validation text, for models whose folder does not hold them.
    references = Below("references", "reference", lock="reference-{}")
    fetched = Below("fetched", "fetched")  # registered models, copied from a remote artifact store
    downloads = Below("corpora/downloads", "download", lock="")
    locks = Below("locks", "lock", lock="")
    verified = Below("verified")  # size and times of files when they were last hashed
    artifacts = Below("artifacts")
    prefect = Below("prefect")
    mlflow_database = Below("mlflow.db")
    temporary = Below("tmp")  # of the processes of `rnnlm up`, and what torch compiles
    own_layers = Below("own_layers.json")  # kinds of layers that are no part of rnnlm, and that this home has trained

    def lock(self, name: str) -> FileLock:
        """Return a lock across processes, to hold for a `with` block. The kernel frees it when its holder dies."""
        self.make(self.locks)
        return FileLock(inside(self.locks, f"{name}.lock"))

    @contextmanager
    def lock_if_free(self, name: str) -> Iterator[bool]:
        """Yield True with the lock held, or False at once if another process or thread holds it."""
        try:
            with self.lock(name).acquire(timeout=0):
                yield True
        except Timeout:
            yield False

    def keep_private(self) -> None:
        """Make what may hold secrets, Prefect's folder and the databases, private to its owner, in older homes, too.

        prefect.db holds the addresses and passwords of messages, and the key that encrypts them.
        """
        databases = [found for folder in (self.root, self.prefect) for found in folder.glob("*.db*")]
        for path, mode in ((self.prefect, 0o700), *((database, 0o600) for database in databases)):
            with suppress(FileNotFoundError, PermissionError):  # gone meanwhile, or another user's
                if path.stat().st_mode & 0o077:
                    path.chmod(mode)

    def make(self, folder: Path) -> None:
        """Create a folder of the home. HomeError if it is not writable."""
        try:
            # Not writable by others, whatever the umask: see find_home. Folders between get the umask's mode.
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


# The table of a home: a row for each file and folder of fixed name.
PLACES = tuple(place for place in vars(Home).values() if isinstance(place, Below))


def expanded(path: str | Path) -> Path:
    """Replace `~` and `~user` by home folders. A user who does not exist is left as he is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  Path.expanduser raises RuntimeError for such a user


def find_home() -> Home:
    """Return RNNLM_HOME, else the nearest `.rnnlm/` upwards that only this user can write to, else `.rnnlm/` here."""
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
        # Files of a home are loaded: anyone who can write to it could run code as this user.
        message = f"{found}: not used as home, because {problem}"
        if folder == here:
            raise HomeError(f"{message}.\nMake it yours (chown), run chmod go-w on it, or set RNNLM_HOME.")
        logger.warning("%s", message)
    return checked_home(here / ".rnnlm")


def checked_home(root: Path) -> Home:
    """Raise HomeError for a path that a library reads as something else, and then writes outside of the home."""
    # DuckDB and SQLite's addresses take `?` for the beginning of options; DuckDB takes a backslash for a slash.
    if {"?", "\\"} & set(str(root)) or not str(root).isprintable():
        raise HomeError(
            f"{ascii(str(root))}: a home's path cannot hold `?`, backslashes or control characters:\n"
            "databases would lie elsewhere. Set RNNLM_HOME to another folder."
        )
    return Home(root)


def why_untrusted(folder: Path) -> str | None:
    """Return the reason why another user could have written to the folder, or None."""
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

    Raise HomeError if it cannot be read; a missing file raises one of ABSENT.
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
    """Return the file's JSON, or None if it is missing or not JSON. Raise HomeError if it cannot be read."""
    try:
        return json.loads(read_with_retries(path, Path.read_bytes))
    except (*ABSENT, ValueError, RecursionError):
        return None


def size_of(path: Path | None) -> int:
    """Return the number of bytes of a file, or of all files in a folder, or 0 if it is missing."""
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
    """Give a temporary path beside `final`, synced and renamed onto it when the block succeeds.

    The file gets the permissions of any new file under the user's umask; a private one is the user's alone. OSError
    before the block if `final` cannot be such a file: renaming onto /dev/null would replace it for everybody.
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
    """Return a new name beside `final`, which remove_partials finds."""
    return final.parent / f"{partial_beginning(final)}{secrets.token_hex(4)}"


def partial_beginning(final: Path) -> str:
    """Return the beginning of the names of all partial writes.

    A digest stands for a name that would become too long.
    """
    name = final.name if len(os.fsencode(final.name)) <= LONGEST_FINAL_BYTES else digest_of(final.name)[:32]
    return f".{name}."


def remove_partials(final: Path) -> None:
    """Remove what killed writers of `final` left behind. Hold the lock of its writers."""
    for leftover in final.parent.glob(f"{glob.escape(partial_beginning(final))}*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def sync(path: Path) -> None:
    """Flush a file or folder to the disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
