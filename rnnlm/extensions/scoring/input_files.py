"""The input files of a bulk scoring, and the kind of each."""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rnnlm.corpora.local_files import WILDCARDS, files_in_folder, files_of_glob, states
from rnnlm.corpora.split_names import TABLE_SUFFIXES, suffix_of
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.home import expanded

Kind = Literal["text", "csv", "tsv", "jsonl", "parquet", "query"]
FORMATS: dict[str, Kind] = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "parquet": "parquet"}


@dataclass(frozen=True)
class InputFile:
    path: Path
    kind: Kind


def find_inputs(config: ScoringConfig) -> list[InputFile]:
    """The files that config.input names, sorted by name.

    CorpusError if there are none, unless they may be missing, and if none of the files there are text or tables.
    """
    if config.may_be_missing and not any_files(config.input):
        return []
    paths = named_files(config.input)
    return [InputFile(path, "query" if config.query is not None else kind_of(path)) for path in paths]


def any_files(name: str) -> bool:
    """Whether anything is there: the file, a file directly in the folder, or a match of the glob."""
    path = expanded(name)
    if path.is_dir():
        return any(one.is_file() and not one.name.startswith(".") for one in path.iterdir())
    return path.exists() or bool(glob.glob(str(path), recursive=True))  # noqa: PTH207


def named_files(name: str) -> tuple[Path, ...]:
    """A file, the texts and tables directly in a folder, or the matches of a glob."""
    path = expanded(name)
    if path.is_file():
        return (path,)
    if path.is_dir():
        return files_in_folder(name, path)
    if WILDCARDS & set(name):
        return files_of_glob(name).paths
    raise CorpusError(f"{name}: no such file or folder; give the texts to score as scoring.input (--input)")


def kind_of(path: Path) -> Kind:
    """By suffix; everything but a table is text."""
    return FORMATS.get(TABLE_SUFFIXES.get(suffix_of(path.name), ""), "text")


def table_file(path: Path, row: str) -> InputFile:
    """A table with one `row` (such as "pair") per row. CorpusError if the file is text."""
    file = InputFile(path, kind_of(path))
    if file.kind == "text":
        raise CorpusError(f"{path}: expected a table (JSON Lines, csv, tsv or Parquet) with one {row} per row")
    return file


def input_states(files: list[InputFile]) -> list[Any]:
    """Path, size and modification time of each file, to detect changed inputs.

    A database's newest rows may be in the write-ahead log beside it.
    """
    paths = [file.path for file in files]
    logs = [Path(f"{file.path}.wal") for file in files if file.kind == "query"]
    return states([*paths, *(path for path in logs if path.exists())])
