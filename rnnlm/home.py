"""Where things lie under RNNLM_HOME, digests, locks and atomic writes: each rule about files, once."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from rnnlm.errors import HomeError

logger = logging.getLogger(__name__)
COMPLETE = "COMPLETE"  # marker of a finished folder: JSON, file name → sha256


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


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically: never seen half-written."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The file's JSON, or None where it is missing or no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@contextmanager
def atomic_file(final: Path) -> Iterator[Path]:
    """A temporary path beside `final`, synced and renamed onto it when the block succeeds."""
    descriptor, name = tempfile.mkstemp(dir=final.parent, prefix=f".{final.name}.")
    os.close(descriptor)
    partial = Path(name)
    try:
        yield partial
        sync(partial)
        partial.replace(final)
        sync(final.parent)
    finally:
        partial.unlink(missing_ok=True)


def drawn_once(picture: Path, draw: Callable[[Path], None], *, anew: bool = False) -> None:
    """A picture written atomically, for all to read, where it is missing or to be drawn anew."""
    if anew or not picture.exists():
        with atomic_file(picture) as partial:
            draw(partial)
        picture.chmod(0o644)


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


def is_complete(folder: Path) -> bool:
    """True where the marker is there and every file it names still has its digest."""
    try:
        digests: dict[str, str] = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        return all(file_digest(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def write_once(home: Home, final: Path, build: Callable[[Path], None], *, force: bool = False) -> bool:
    """Make the content-addressed folder `final` by `build(partial)`, unless its verified content is there.

    Returns True where nothing had to be done. Two processes that want the same folder wait for each
    other; a half-built one has another name and is removed when the same folder is next built.
    """
    home.make(final.parent)
    with home.lock(f"{final.parent.name}-{final.name}"):
        if is_complete(final) and not force:
            return True
        if final.exists() and not force:
            logger.warning("%s: damaged or incomplete, made again", final)
        for leftover in final.parent.glob(f".{final.name}.*"):  # of a killed run: we hold the lock
            shutil.rmtree(leftover)
        partial = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name}."))
        try:
            build(partial)
            mark_complete(partial)
            if final.exists():
                final.replace(final.parent / f".{final.name}.old")
            partial.chmod(0o755)
            partial.replace(final)
            sync(final.parent)
        finally:
            for leftover in final.parent.glob(f".{final.name}.*"):
                shutil.rmtree(leftover)
        return False
