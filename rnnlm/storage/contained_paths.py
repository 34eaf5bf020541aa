"""Conversion of names that were read from a file, archive or table to paths inside a given folder."""

from pathlib import Path

from rnnlm.errors import HomeError

# The largest number of bytes of a file's or folder's name, which every common file system accepts.
LONGEST_PART_BYTES = 255


class UnsafeNameError(HomeError):
    """An error for a name that was read from a file and does not lead to a path inside the expected folder."""


def inside(folder: Path, name: object, *, any_links: bool = False) -> Path:
    """Return `folder / name` for a name like `model/config.json`.

    Raise UnsafeNameError if the path could be outside the folder. The folder itself may be a link. Links below it must
    not lead outside, unless `any_links` is true because the user has created them.
    """
    problem = problem_of(name)
    if problem is None:
        path = folder / str(name)
        try:
            contained = any_links or path.resolve().is_relative_to(folder.resolve())
        # The links form a loop, so the path cannot lead outside. Opening it will fail later.
        except (OSError, RuntimeError):
            contained = True
        if contained:
            return path
        problem = "a link leads out of the folder"
    raise UnsafeNameError(
        f"{folder}: expected the name of a file in this folder, found {ascii(name)[:80]} ({problem}).\n"
        "The file that contains this name is damaged or was changed: copy it from its source or create it again."
    )


def problem_of(name: object) -> str | None:
    """Return the reason why `name` is not a relative path of ordinary characters, or None if it is one."""
    if not isinstance(name, str):
        return f"it is of type {type(name).__name__}"
    if not name:
        return "it is empty"
    if not name.isprintable():  # Characters that cannot be printed include NUL, ESC, line feeds and surrogates.
        return "it has control characters"
    if name.startswith("/"):
        return "it is absolute"
    parts = name.split("/")
    if not set(parts).isdisjoint(("", ".", "..")):
        return "it has an empty part, `.` or `..`"
    if any(len(part.encode()) > LONGEST_PART_BYTES for part in parts):
        return f"a part has more than {LONGEST_PART_BYTES} bytes"
    return None
