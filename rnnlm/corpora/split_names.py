"""What a file or member is for, told by its name: a split, one running text, or nothing."""

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
COMPRESSED = {".gz": "", ".bz2": "", ".xz": "", ".zst": "", ".zstd": ""}  # suffix → what lies below it
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
    """The split that a file's name names: as the whole stem, or set off at its beginning or end by . _ or -.

    train.txt, train-00001.jsonl, news_train.csv and ptb.valid name one; the-train-robbery.txt and retrain.txt do not.
    """
    last = PurePosixPath(uncompressed_name(PurePosixPath(name).name.lower()))
    stem = last.name if is_split_word(last.suffix[1:]) else last.stem
    words = re.split(r"[._-]", stem)
    named = [split for split in SPLITS if SPLIT_WORDS[split] & {words[0], words[-1]}]
    if len(named) > 1:
        raise CorpusError(f"{name}: names several splits ({', '.join(named)}); rename it, so that it names one")
    return named[0] if named else None


def is_split_word(word: str) -> bool:
    return any(word in words for words in SPLIT_WORDS.values())


def may_be_text(name: str, format: str = "auto") -> bool:
    """False for pictures, programs, notes, hidden files and nested archives, judged by name alone.

    Where the configuration names the format, a file of any suffix may be of it, pictures and sound aside.
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
    """True for hidden files and for what is about a corpus, such as README: nobody misses them."""
    last = PurePosixPath(name).name
    return last.startswith(".") or last.lower().split(".")[0] in NOTES


def is_archive_name(name: str) -> bool:
    """True for a tar or a zip, compressed or not, judged by name alone."""
    return suffix_of(name) in ARCHIVES


def check_roles(source: str, roles: Mapping[str, str | None]) -> None:
    """CorpusError where names tell splits but none tells `train`: valid and test can be carved from it, it from none.

    roles: the name of each file, member or hub split → the split that it names, if it names one.
    """
    named = {role: printable(PurePosixPath(name).name) for name, role in roles.items() if role in SPLITS}
    if named and "train" not in named:
        found = ", ".join(f"{split} ({named[split]})" for split in SPLITS if split in named)
        raise CorpusError(
            f"{source}: has text for {found} but none for train;\n"
            "expected a name such as train.txt or news-train.txt (valid and test are optional); rename the files"
        )


def warn_of_omissions(source: str, names: Iterable[str], reason: str) -> None:
    """One warning with the names of what is not read."""
    names = list(names)
    if names:
        logger.warning("%s: not read (%s): %s", source, reason, shortened(names))


def shortened(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - FILE_NAMES_SHOWN:,} more" if len(names) > FILE_NAMES_SHOWN else ""
    return ", ".join(map(printable, names[:FILE_NAMES_SHOWN])) + more
