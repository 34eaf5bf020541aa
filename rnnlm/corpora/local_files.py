"""Local files: find the texts of a folder or glob, give reasons for leaving out others, and detect changes."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rnnlm.corpora.split_names import is_archive_name, is_note, may_be_read
from rnnlm.corpora.text_encoding import shortened, unreadable
from rnnlm.errors import CorpusError
from rnnlm.storage.home import expanded, file_digest
from rnnlm.storage.records import LeftOut

WILDCARDS = set("*?[")
NO_TEXT = "not text, judging by the name; corpus.format=text reads any"
NOTE_REASON = "about the text, not part of it; a glob such as '**/*.md' takes it"
HIDDEN_FILE = "hidden"
ARCHIVE = "an archive; a glob such as FOLDER/* opens it"


@dataclass(frozen=True)
class Found:
    """Files to read, and files that are left out."""

    paths: tuple[Path, ...]
    left_out: tuple[LeftOut, ...] = ()


def texts_below(source: str, folder: Path, format: str = "auto") -> Found:
    """The texts, tables and documents in a folder and the folders below it, sorted by path.

    Hidden files and folders are not read, for they may hold secrets. No link is followed out of the folder.
    """
    paths: list[Path] = []
    left_out: list[LeftOut] = []
    hidden: list[str] = []
    root = folder.resolve()
    for path in walk(folder, hidden, left_out):
        reason = reason_against(path, root, format)
        if reason == HIDDEN_FILE:
            hidden.append(path.name)
        elif reason:
            left_out.append(LeftOut(name=str(path.relative_to(folder)), reason=reason))
        else:
            paths.append(path)
    names = [str(path.relative_to(folder)) for path in paths]
    if hidden:
        left_out.insert(0, LeftOut(name=shortened(sorted(set(hidden))), reason=HIDDEN_FILE))
    if not paths and any(one.reason == ARCHIVE for one in left_out):
        raise CorpusError(f"{source}: has archives and no text; to open them give a glob, such as {source}/*")
    if not paths:
        raise nothing_left(source, left_out)
    return Found(tuple(path for _, path in sorted(zip(names, paths, strict=True))), tuple(left_out))


def walk(folder: Path, hidden: list[str], left_out: list[LeftOut]) -> Iterator[Path]:
    """All entries that are not folders, without those in hidden folders, which are added to `hidden`."""

    def not_entered(error: OSError) -> None:
        left_out.append(
            LeftOut(name=os.path.relpath(error.filename, folder), reason=f"cannot be read ({error.strerror})")
        )

    for place, folders, files in os.walk(folder, onerror=not_entered):
        hidden += [name for name in folders if name.startswith(".")]
        links = [name for name in folders if not name.startswith(".") and (Path(place) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in links)
        yield from (Path(place) / name for name in sorted([*files, *links]))


def reason_against(path: Path, root: Path, format: str) -> str | None:
    """Why an entry of a folder is not read, or None."""
    if path.name.startswith("."):
        return HIDDEN_FILE
    if path.is_symlink():
        target = path.resolve()
        if not target.is_relative_to(root):
            return "a link that leaves the folder"
        if target.is_dir() or not target.exists():
            return "a link to a folder" if target.exists() else "a link to nothing"
        if any(part.startswith(".") for part in target.relative_to(root).parts):
            return HIDDEN_FILE
        if may_be_read(target.name, format):
            return "a link to a file that is read itself"
    if not path.is_file():
        return "neither a file nor a folder"
    if may_be_read(path.name, format):
        return None
    if is_note(path.name):
        return NOTE_REASON
    return ARCHIVE if is_archive_name(path.name) else NO_TEXT


def nothing_left(source: str, left_out: Sequence[LeftOut]) -> CorpusError:
    """The error for a source in which nothing can be read."""
    reasons = {one.reason for one in left_out} - {NO_TEXT}
    there = [f"{one.name} ({one.reason})" if reasons else one.name for one in left_out]
    return CorpusError(
        f"{source}: has no text; {f'it has {shortened(there)}' if there else 'it has no files'};\n"
        "expected .txt, .md, .rst, .html, .pdf, .docx, .epub, .csv, .tsv, .json, .jsonl or .parquet (or compressed),\n"
        "or set corpus.format=text to read any file"
    )


def files_in_folder(source: str, folder: Path) -> tuple[Path, ...]:
    """The texts and tables directly in a folder, sorted by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    texts = tuple(path for path in files if may_be_read(path.name, documents=False))
    if not texts:
        raise nothing_left(source, [LeftOut(name=path.name, reason=NO_TEXT) for path in files])
    return texts


def files_of_glob(pattern: str, *, documents: bool = False, format: str = "auto") -> Found:
    """Matching files; a pattern without a suffix, such as data/**, leaves out names that are not text.

    documents: take Markdown, reStructuredText, HTML and PDF, too. format: as corpus.format.
    """
    # glob, not Path.glob: it takes absolute patterns and leaves hidden files out, as a shell does
    found = sorted(Path(name) for name in glob.glob(str(expanded(pattern)), recursive=True))  # noqa: PTH207
    files = [path for path in found if path.is_file()]
    taken = files
    if not PurePosixPath(pattern).suffix:
        taken = [
            path for path in files if may_be_read(path.name, format, documents=documents) or is_archive_name(path.name)
        ]
    if files and not taken:
        raise nothing_left(pattern, [LeftOut(name=str(path), reason=NO_TEXT) for path in files])
    if not files:
        raise CorpusError(f"{pattern}: no file matches; check the pattern, and quote it for the shell")
    others = sorted(set(files) - set(taken))
    return Found(
        tuple(taken),
        tuple(LeftOut(name=str(path), reason=NOTE_REASON if is_note(path.name) else NO_TEXT) for path in others),
    )


def states(paths: list[Path] | tuple[Path, ...]) -> list[list[Any]]:
    """Path, size and modification time of each file, from which changes are detected."""
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
