"""The names of files and archive members, which may determine their split and format, or that they are not read."""

import mimetypes
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from rnnlm.corpora.printable_names import printable
from rnnlm.errors import CorpusError
from rnnlm.storage.records import SPLITS, Split

# A pattern for the words that number the files of a split, such as those in train-00000-of-00003.
SHARD_NUMBER = re.compile(r"\d+|of")
SPLIT_OF_WORD: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}
COMPRESSED = {
    ".gz": "",
    ".bz2": "",
    ".xz": "",
    ".lzma": "",
    ".zst": "",
    ".zstd": "",
}  # The suffix after decompression for each suffix of a compressed file.
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
    ".parq": "parquet",
    ".pq": "parquet",
}
DOCUMENT_SUFFIXES = {  # The suffixes of documents and their kinds; see document_formats.py.
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".epub": "epub",
}
SOURCE_CODE_NAMES = (
    "bash c cc clj cpp cs css cxx el erl ex f90 go h hpp hs java jl js jsx kt lisp lua m ml php pl pm ps1 py pyi r rb "
    "rs scala scm sh sql swift tex ts tsx vim zsh"
)
SOURCE_CODE = {f".{name}" for name in SOURCE_CODE_NAMES.split()}
TEXTS = {"", ".txt", ".text", ".tokens", ".raw", ".log", ".mbox", *SOURCE_CODE}
HIDDEN_NAME = "hidden"
BOOKKEEPING = "bookkeeping of a program such as Spark, judging by the name"
BOOKKEEPING_FOLDER = re.compile(r"_(temporary|delta_log|spark_metadata|change_data|symlink_format_manifest)")
NOTE_REASON = "about the text, not part of it; a glob such as '**/*.md' reads it"
ARCHIVE = "an archive; a glob such as FOLDER/* opens it"
NO_TEXT = "not text, judging by the name; corpus.format=text reads it"
# The names of files about a corpus, which do not belong to its text.
NOTES = {"readme", "license", "licence", "copying", "changelog"}


def uncompressed_name(name: str) -> str:
    """Return the name of the file after decompression: a.txt for a.txt.gz, b.tar for b.tgz."""
    suffix = PurePosixPath(name).suffix
    below = COMPRESSED.get(suffix.lower())
    return name if below is None else name[: -len(suffix)] + below


def suffix_of(name: str) -> str:
    """Return the suffix after decompression in lower case: .txt for a.TXT.gz."""
    return PurePosixPath(uncompressed_name(name)).suffix.lower()


@dataclass(frozen=True)
class Claim:
    """A hint at a split in a file name.

    The hint counts if another name of the same group contains a hint at another split.
    """

    split: Split
    # The part of a path that all files of a data set share: the folder, and the words of the name without the split.
    group: tuple[str, ...]
    alone: bool  # Whether the name consists only of a split and numbers, such as train.txt or train-00001.jsonl.


def named_splits(names: Iterable[str]) -> dict[str, Split | None]:
    """Return the split to which each name assigns its file, which also depends on the other names.

    The name news-train.txt names a split if there is a news-test.txt, and train/a.txt if there is a test/b.txt. The
    name train.txt needs no other name. A name that merely contains a word for a split, such as test-plan.txt, names
    none. The name of a document, such as testing.md, never names a split. If no name names `train`, names count only if
    all of them name a split.
    """
    claims = {name: list(claims_of(name)) for name in names}
    splits_of = defaultdict(set)
    for claim in (claim for found in claims.values() for claim in found):
        splits_of[claim.group].add(claim.split)

    def told(counts: Callable[[Claim], bool]) -> dict[str, Split | None]:
        """Return the split to which each file name assigns its file, or None.

        Of several hints in a name, the first that `counts` accepts decides.
        """
        return {name: next((claim.split for claim in found if counts(claim)), None) for name, found in claims.items()}

    paired = told(lambda claim: {"train"} < splits_of[claim.group])
    alone = told(lambda claim: claim.alone)
    if "train" in {*paired.values(), *alone.values()}:
        return {name: paired[name] or alone[name] for name in claims}
    without_train = told(lambda claim: claim.alone or len(splits_of[claim.group]) > 1)
    return without_train if all(without_train.values()) else dict.fromkeys(claims)


def claims_of(name: str) -> Iterator[Claim]:
    """Yield the hints at splits in the name of a file and in the names of its folders."""
    path = PurePosixPath(uncompressed_name(name.lower()))
    for index, part in enumerate(path.parent.parts):
        if part in SPLIT_OF_WORD:
            yield Claim(SPLIT_OF_WORD[part], ("folder", *path.parts[:index]), alone=False)
    words = words_of(path)
    found = splits_in(words)
    # The names of documents and programs, such as train.py, do not name splits.
    if len(found) == 1 and path.suffix not in {*DOCUMENT_SUFFIXES, *SOURCE_CODE}:
        rest = [word for word in words if word not in SPLIT_OF_WORD and not SHARD_NUMBER.fullmatch(word)]
        yield Claim(found.pop(), ("file", *path.parent.parts, "", *rest), alone=not rest and path.name == str(path))


def split_named(name: str) -> Split | None:
    """Return the split in the name of a part of a data set, such as train_sft.

    The word for the split is the first or last word, or the whole name.
    """
    found = splits_in(words_of(PurePosixPath(name.lower())))
    if len(found) > 1:
        raise CorpusError(
            f"{name}: names several splits ({', '.join(sorted(found))}); "
            "rename the file so that its name contains one split"
        )
    return next(iter(found), None)


def words_of(path: PurePosixPath) -> list[str]:
    """Return the words of a file name without its suffix.

    Words are separated by . _ or -. If the suffix is a split, as in ptb.train, it is also a word.
    """
    return re.split(r"[._-]", path.name if path.suffix[1:] in SPLIT_OF_WORD else path.stem)


def splits_in(words: list[str]) -> set[Split]:
    """Return the splits that are named by the first or the last of the words."""
    return {SPLIT_OF_WORD[word] for word in (words[0], words[-1]) if word in SPLIT_OF_WORD}


def unclear_split_names(names: Iterable[str]) -> list[str]:
    """Return the file names that contain a word such as "test" or "dev", but do not name a split."""
    told = named_splits(names)
    return [
        name for name, split in told.items() if not split and {c.split for c in claims_of(name)} & {"valid", "test"}
    ]


def reason_by_name(name: str, format: str = "auto") -> str | None:
    """Return the reason why a file or archive member is not read because of its name, or None if it may be read.

    `name` is the path below the source. Hidden names begin with a dot; files that macOS adds to archives count as
    hidden. Spark writes bookkeeping files whose names begin with _. A file such as __init__.py is not one, because its
    suffix is that of a text, a document or a program. If the configuration sets the format, files with any suffix are
    read, except images, videos, fonts and sounds.
    """
    *folders, last = PurePosixPath(name).parts
    suffix = suffix_of(last)
    if any(part.startswith(".") or part == "__MACOSX" for part in (*folders, last)):
        return HIDDEN_NAME
    named_texts = {*TEXTS, *DOCUMENT_SUFFIXES} - {""}
    if any(map(BOOKKEEPING_FOLDER.fullmatch, folders)) or (last.startswith("_") and suffix not in named_texts):
        return BOOKKEEPING
    if last.lower().split(".")[0] in NOTES:
        return NOTE_REASON
    if is_archive_name(last):
        return ARCHIVE
    if format != "auto":
        kind = mimetypes.guess_type(f"a{suffix}")[0] or ""
        return NO_TEXT if kind.startswith(("audio/", "font/", "image/", "video/")) else None
    # The suffix may be the name of a split, as in ptb.train.
    known = suffix in {*TEXTS, *TABLE_SUFFIXES, *DOCUMENT_SUFFIXES} or suffix[1:] in SPLIT_OF_WORD
    return None if known else NO_TEXT


def may_be_read(name: str, format: str = "auto") -> bool:
    return reason_by_name(name, format) is None


def is_archive_name(name: str) -> bool:
    """Return True if the name is that of a tar or zip archive, compressed or not."""
    return suffix_of(name) in ARCHIVES


def check_roles(source: str, roles: Mapping[str, str | None]) -> None:
    """Raise CorpusError if names determine splits but none of them is `train`. Only valid and test can be split off.

    `roles` has the split of each file, archive member or hub split, or None if its name does not determine one.
    """
    named = {role: printable(PurePosixPath(name).name) for name, role in roles.items() if role in SPLITS}
    if named and "train" not in named:
        found = ", ".join(f"{split} ({named[split]})" for split in SPLITS if split in named)
        raise CorpusError(
            f"{source}: has text for {found} but none for train;\n"
            "expected a name such as train.txt or news-train.txt (valid and test are optional); rename the files"
        )
