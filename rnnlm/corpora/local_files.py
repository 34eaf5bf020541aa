"""Local files: the texts in a folder or glob, the reasons why files are not read, and the detection of changes."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rnnlm.corpora.printable_names import readable_path, shortened, unreadable
from rnnlm.corpora.split_names import (
    ARCHIVE,
    BOOKKEEPING,
    HIDDEN_NAME,
    NO_TEXT,
    NOTE_REASON,
    is_archive_name,
    may_be_read,
    reason_by_name,
)
from rnnlm.errors import CorpusError
from rnnlm.storage.home import expanded, file_digest
from rnnlm.storage.records import LeftOut

KEPT_BEHIND_LINKS = re.compile(r"\.\.[^/]+/|\.git/annex/objects/")


@dataclass(frozen=True)
class Found:
    """The files to read, and the files that are not read."""

    paths: tuple[Path, ...]
    left_out: tuple[LeftOut, ...] = ()


def texts_below(source: str, folder: Path, format: str = "auto") -> Found:
    """Find the texts, tables and documents in a folder and the folders below it, sorted by path.

    Hidden files and folders are not read, because they may contain secrets. Links that lead outside the folder are not
    followed.
    """
    paths: list[Path] = []
    left_out: list[LeftOut] = []
    hidden: list[str] = []
    for path in walk(folder, hidden, left_out):
        reason = reason_against(path, folder, format)
        if reason == HIDDEN_NAME:
            hidden.append(path.name)
        elif reason:
            left_out.append(LeftOut(name=readable_path(path.relative_to(folder)), reason=reason))
        else:
            paths.append(path)
    names = [str(path.relative_to(folder)) for path in paths]
    if hidden:
        left_out.insert(0, LeftOut(name=shortened(sorted(set(hidden))), reason=HIDDEN_NAME))
    if not paths and any(one.reason == ARCHIVE for one in left_out):
        raise CorpusError(f"{source}: has archives and no text; to open them, give a glob such as {source}/*")
    if not paths:
        raise nothing_left(source, left_out)
    return Found(tuple(path for _, path in sorted(zip(names, paths, strict=True))), tuple(left_out))


def walk(folder: Path, hidden: list[str], left_out: list[LeftOut]) -> Iterator[Path]:
    """Yield all files of a folder and its subfolders that are not hidden.

    The paths of hidden files and folders are added to `hidden`.
    """

    def not_entered(error: OSError) -> None:
        name = readable_path(Path(os.path.relpath(error.filename, folder)))
        left_out.append(LeftOut(name=name, reason=f"cannot be read ({error.strerror})"))

    for place, folders, files in os.walk(folder, onerror=not_entered):
        hidden += [name for name in folders if name.startswith(".")]
        links = [name for name in folders if not name.startswith(".") and (Path(place) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in links)
        yield from (Path(place) / name for name in sorted([*files, *links]))


def reason_against(path: Path, folder: Path, format: str) -> str | None:
    """Return the reason why an entry of a folder is not read, or None if it is read.

    A link is read if its target is in the folder and is not read itself. The target must not be hidden, because hidden
    files may contain secrets. The hidden folders in which Kubernetes volumes and git-annex keep their files are
    exceptions.
    """
    reason = reason_by_name(path.relative_to(folder).as_posix(), format)
    if path.is_symlink():
        root, target = folder.resolve(), path.resolve()
        if not target.is_relative_to(root):
            return reason if reason == HIDDEN_NAME else "a link that leaves the folder"
        if target.is_dir() or not target.exists():
            return "a link to a folder" if target.exists() else "a link whose target does not exist"
        below = target.relative_to(root).as_posix()
        if reason is None and may_be_read(below, format):
            return "a link to a file that is read itself"
        if reason is None and reason_by_name(below, format) == HIDDEN_NAME and not KEPT_BEHIND_LINKS.match(below):
            return "a link to a hidden file"
    return reason if reason or path.is_file() else "neither a file nor a folder"


def nothing_left(source: str, left_out: Sequence[LeftOut]) -> CorpusError:
    """Return the error to raise for a source in which no file can be read."""
    reasons = {one.reason for one in left_out} - {NO_TEXT}
    there = [f"{one.name} ({one.reason})" if reasons else one.name for one in left_out]
    return CorpusError(
        f"{source}: has no text; {f'it has {shortened(there)}' if there else 'it has no files'};\n"
        "expected .txt, .md, .rst, .html, .pdf, .docx, .epub, .csv, .tsv, .json, .jsonl or .parquet (or compressed),\n"
        "or set corpus.format=text to read any file"
    )


def files_in_folder(source: str, folder: Path) -> Found:
    """Find the files directly in a folder that may be texts according to their names, sorted by name.

    Raise CorpusError if there are no such files.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return chosen(source, {path: None if is_archive_name(path.name) else reason_by_name(path.name) for path in files})


def files_of_glob(pattern: str, format: str = "auto") -> Found:
    """Find the files that match a pattern.

    A pattern without a suffix, such as data/**, matches only files with a suffix of a supported text format. Files
    whose names begin with _ match only a pattern that begins with _, too. `format` is corpus.format.
    """
    # Unlike Path.glob, glob accepts absolute patterns, and ignores hidden files as a shell does.
    found = sorted(Path(name) for name in glob.glob(str(expanded(pattern)), recursive=True))  # noqa: PTH207
    against = {BOOKKEEPING} if PurePosixPath(pattern).suffix else {BOOKKEEPING, NO_TEXT, NOTE_REASON}
    against -= {BOOKKEEPING} if PurePosixPath(pattern).name.startswith("_") else set()
    reasons = {path: reason_by_name(path.name, format) for path in found if path.is_file()}
    if not reasons:
        raise CorpusError(f"{pattern}: no file matches; check the pattern, and quote it for the shell")
    return chosen(pattern, {path: reason if reason in against else None for path, reason in reasons.items()})


def chosen(source: str, reasons: Mapping[Path, str | None]) -> Found:
    """Return the files for which `reasons` has no reason against reading.

    Raise CorpusError if there are no such files.
    """
    left_out = [LeftOut(name=readable_path(path), reason=reason) for path, reason in reasons.items() if reason]
    if len(left_out) == len(reasons):
        raise nothing_left(source, left_out)
    return Found(tuple(path for path, reason in reasons.items() if not reason), tuple(left_out))


def states(paths: list[Path] | tuple[Path, ...]) -> list[list[Any]]:
    """Return the path, size and modification time of each file, by which changes are detected."""
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
