"""What a file or member is for, told by its name: a split, one running text, or nothing."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from rnnlm.errors import CorpusError
from rnnlm.records import SPLITS, Split

SPLIT_WORDS: dict[Split, set[str]] = {
    "train": {"train", "training"},
    "valid": {"valid", "validation", "val", "dev"},
    "test": {"test", "testing"},
}
COMPRESSED = {".gz": "", ".bz2": "", ".xz": "", ".zst": "", ".zstd": ""}  # suffix → what lies below it
COMPRESSED |= {".tgz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".tzst": ".tar"}
ARCHIVES = {".tar", ".zip"}
TABLES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
TEXTS = {"", ".txt", ".text", ".tokens", ".raw"}
NOTES = {"readme", "license", "licence", "copying", "changelog"}  # about a corpus, not of it


def uncompressed_name(name: str) -> str:
    """The file name without the suffix of a compression: a.txt.gz → a.txt, b.tgz → b.tar."""
    suffix = PurePosixPath(name).suffix
    below = COMPRESSED.get(suffix.lower())
    return name if below is None else name[: -len(suffix)] + below


def suffix_of(name: str) -> str:
    """The lower-case suffix below a compression's: a.TXT.gz → .txt."""
    return PurePosixPath(uncompressed_name(name)).suffix.lower()


def split_named(name: str) -> Split | None:
    """The split that a word of the file's name names, words being parted by dots, hyphens and underscores."""
    words = set(re.split(r"[._-]", PurePosixPath(name).name.lower()))
    named = [split for split in SPLITS if SPLIT_WORDS[split] & words]
    if len(named) > 1:
        raise CorpusError(f"{name}: names several splits ({', '.join(named)}); rename it, so that it names one")
    return named[0] if named else None


def may_be_text(name: str) -> bool:
    """False for pictures, programs, notes, hidden files and nested archives, judged by name alone."""
    last = PurePosixPath(name).name
    suffix = suffix_of(last)
    if last.startswith(".") or last.lower().split(".")[0] in NOTES:
        return False
    split_suffix = any(suffix[1:] in words for words in SPLIT_WORDS.values())  # such as ptb.train
    return suffix in TEXTS or suffix in TABLES or split_suffix


def is_archive_name(name: str) -> bool:
    return suffix_of(name) in ARCHIVES


def checked_roles(source: str, roles: Iterable[str]) -> None:
    """CorpusError where splits are named but `train` is not: valid and test can be carved, train cannot."""
    named = set(roles) - {"text"}
    if named and "train" not in named:
        found = ", ".join(split for split in SPLITS if split in named)
        raise CorpusError(
            f"{source}: has text for {found} but none for train;\n"
            "expected a file with the word train in its name (valid and test are optional)"
        )
