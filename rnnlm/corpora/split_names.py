"""What the name of a file or archive member tells: its split, its format, or that it is not text."""

import logging
import mimetypes
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from rnnlm.corpora.text_encoding import printable
from rnnlm.errors import CorpusError
from rnnlm.records import SPLITS, Split

logger = logging.getLogger(__name__)
FILE_NAMES_SHOWN = 5  # in a message
SPLIT_WORDS: dict[Split, set[str]] = {
    "train": {"train", "training"},
    "valid": {"valid", "validation", "val", "dev"},
    "test": {"test", "testing"},
}
COMPRESSED = {".gz": "", ".bz2": "", ".xz": "", ".zst": "", ".zstd": ""}  # suffix → suffix after decompression
COMPRESSED |= {".tgz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".tzst": ".tar"}
ARCHIVES = {".tar", ".zip"}
TABLE_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
TEXTS = {"", ".txt", ".text", ".tokens", ".raw"}
NOTES = {"readme", "license", "licence", "copying", "changelog"}  # files about a corpus


def uncompressed_name(name: str) -> str:
    """The file name after decompression: a.txt.gz → a.txt, b.tgz → b.tar."""
    suffix = PurePosixPath(name).suffix
    below = COMPRESSED.get(suffix.lower())
    return name if below is None else name[: -len(suffix)] + below


def suffix_of(name: str) -> str:
    """The lower-case suffix after decompression: a.TXT.gz → .txt."""
    return PurePosixPath(uncompressed_name(name)).suffix.lower()


def split_named(name: str) -> Split | None:
    """The split in a file name: its whole stem, or the first or last word of it, separated by . _ or -.

    train.txt, train-00001.jsonl, news_train.csv and ptb.valid name one; the-train-robbery.txt and retrain.txt do not.
    """
    last = PurePosixPath(uncompressed_name(PurePosixPath(name).name.lower()))
    stem = last.name if is_split_word(last.suffix[1:]) else last.stem
    words = re.split(r"[._-]", stem)
    named = [split for split in SPLITS if SPLIT_WORDS[split] & {words[0], words[-1]}]
    if len(named) > 1:
        raise CorpusError(f"{name}: names several splits ({', '.join(named)}); rename it to name one")
    return named[0] if named else None


def is_split_word(word: str) -> bool:
    return any(word in words for words in SPLIT_WORDS.values())


def may_be_text(name: str, format: str = "auto") -> bool:
    """False for images, programs, notes, hidden files and nested archives, judging by the name.

    If the configuration sets the format, any suffix may be text except those of images, video, fonts and sound.
    """
    last = PurePosixPath(name).name
    suffix = suffix_of(last)
    if is_note(last):
        return False
    if format != "auto":
        kind = mimetypes.guess_type(f"a{suffix}")[0] or ""
        return not is_archive_name(last) and not kind.startswith(("audio/", "font/", "image/", "video/"))
    return suffix in TEXTS or suffix in TABLE_SUFFIXES or is_split_word(suffix[1:])  # such as ptb.train


def is_note(name: str) -> bool:
    """True for hidden files and files about a corpus, such as README, which are skipped without a warning."""
    last = PurePosixPath(name).name
    return last.startswith(".") or last.lower().split(".")[0] in NOTES


def is_archive_name(name: str) -> bool:
    """True for a tar or zip, compressed or not, judging by the name."""
    return suffix_of(name) in ARCHIVES


def check_roles(source: str, roles: Mapping[str, str | None]) -> None:
    """CorpusError if names tell splits but not `train`: only valid and test can be carved.

    roles: name of each file, member or hub split → the split in it, or None.
    """
    named = {role: printable(PurePosixPath(name).name) for name, role in roles.items() if role in SPLITS}
    if named and "train" not in named:
        found = ", ".join(f"{split} ({named[split]})" for split in SPLITS if split in named)
        raise CorpusError(
            f"{source}: has text for {found} but none for train;\n"
            "expected a name such as train.txt or news-train.txt (valid and test are optional); rename the files"
        )


def warn_of_omissions(source: str, names: Iterable[str], reason: str) -> None:
    """Warn once of files that are not read."""
    names = list(names)
    if names:
        logger.warning("%s: not read (%s): %s", source, reason, shortened(names))


def shortened(names: Iterable[str]) -> str:
    """The first few names, and the number of others."""
    names = list(names)
    more = f" and {len(names) - FILE_NAMES_SHOWN:,} more" if len(names) > FILE_NAMES_SHOWN else ""
    return ", ".join(map(printable, names[:FILE_NAMES_SHOWN])) + more
