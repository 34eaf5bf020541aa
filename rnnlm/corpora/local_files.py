"""Local files: find the texts of a folder or glob, and detect changes."""

import glob
from pathlib import Path, PurePosixPath
from typing import Any

from rnnlm.corpora.file_formats import nothing_left
from rnnlm.corpora.split_names import is_archive_name, may_be_text
from rnnlm.corpora.text_encoding import unreadable
from rnnlm.errors import CorpusError
from rnnlm.home import file_digest

WILDCARDS = set("*?[")


def files_in_folder(source: str, folder: Path, format: str = "auto") -> tuple[Path, ...]:
    """The texts and tables directly in a folder, sorted by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    texts = tuple(path for path in files if may_be_text(path.name, format))
    if not texts and any(is_archive_name(path.name) for path in files):
        raise CorpusError(f"{source}: has archives and no text; to open them give a glob, such as {source}/*")
    if not texts:
        raise nothing_left(source, [path.name for path in files])
    return texts


def files_of_glob(pattern: str) -> tuple[Path, ...]:
    """Matching files; a pattern without a suffix, such as data/**, skips names that are not text."""
    # glob, not Path.glob: it takes absolute patterns and leaves hidden files out, as a shell does
    found = sorted(Path(name) for name in glob.glob(str(Path(pattern).expanduser()), recursive=True))  # noqa: PTH207
    files = [path for path in found if path.is_file()]
    if not PurePosixPath(pattern).suffix:
        files = [path for path in files if may_be_text(path.name) or is_archive_name(path.name)]
    if not files:
        raise CorpusError(f"{pattern}: no file matches; check the pattern, and quote it for the shell")
    return tuple(files)


def states(paths: list[Path] | tuple[Path, ...]) -> list[list[Any]]:
    """Path, size and modification time of each file, which tell whether it has changed."""
    try:
        found = [(path.resolve(), path.stat()) for path in paths]
    except OSError as error:
        raise unreadable(str(error.filename), error) from error
    return [[str(path), state.st_size, state.st_mtime_ns] for path, state in found]


def digest_of_file(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise unreadable(str(path), error) from error
