"""Find the files to score, and detect the kind of each file from its content."""

import glob
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, get_args

from rnnlm.config import CorpusConfig
from rnnlm.corpora.csv_dialects import Dialect, Quoting
from rnnlm.corpora.document_formats import DocumentError
from rnnlm.corpora.file_formats import TextReader
from rnnlm.corpora.format_detection import archive_kind, detect_format
from rnnlm.corpora.local_files import Found, files_in_folder, files_of_glob, nothing_left, states
from rnnlm.corpora.printable_names import readable_path
from rnnlm.corpora.source_files import SourceFile
from rnnlm.corpora.source_names import WILDCARDS
from rnnlm.corpora.table_files import noted_dialect
from rnnlm.corpora.text_encoding import EncodingError, decoded_beginning, is_utf_8
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.home import expanded
from rnnlm.storage.records import LeftOut

Kind = Literal["text", "csv", "tsv", "jsonl", "parquet", "query"]
BEGINNING_BYTES = 64 << 10  # The number of bytes from which the kind of a file is detected.


@dataclass(frozen=True)
class InputFile:
    path: Path
    kind: Kind
    encoding: str = "utf-8"  # The encoding of a text file, which is detected from the beginning of the file.
    dialect: Dialect | None = None  # The dialect of a csv or tsv file.

    @cached_property
    def label(self) -> str:
        """The path of the file as shown in messages and in the output."""
        return readable_path(self.path)


@dataclass(frozen=True)
class Inputs:
    files: tuple[InputFile, ...]  # The files, sorted by name.
    left_out: tuple[LeftOut, ...] = ()  # The files that were not read, or whose text was changed.


def find_inputs(config: ScoringConfig) -> Inputs:
    """Find the files that config.input names.

    Raise CorpusError if none of the files is a text or a table, or if there are no files and config.may_be_missing is
    not set.
    """
    if config.may_be_missing and not any_files(config.input):
        return Inputs(())
    if config.query is not None:
        return Inputs(tuple(InputFile(path, "query") for path in named_files(config.input).paths))
    return readable_inputs(config.input, config.encoding, config.quoting)


def readable_inputs(name: str, encoding: str = "utf-8", quoting: Quoting | Literal["auto"] = "auto") -> Inputs:
    """Find the texts and tables among the files that match a name. Raise CorpusError if there are none."""
    found = named_files(name)
    files: list[InputFile] = []
    left_out = list(found.left_out)
    for path in found.paths:
        try:
            file, notes = examined(path, encoding, quoting)
        except (DocumentError, EncodingError) as error:
            reason = f"{error.place}; no encoding fits" if isinstance(error, EncodingError) else str(error)
            left_out.append(LeftOut(name=readable_path(path), reason=reason))
        else:
            files.append(file)
            left_out += notes
    if not files and len(found.paths) == 1 and not found.left_out:
        raise CorpusError(f"{left_out[0].name}: {left_out[0].reason}")
    if not files:
        raise nothing_left(name, left_out)
    return Inputs(tuple(files), tuple(left_out))


def any_files(name: str) -> bool:
    """Return True if `name` is a file, a folder that directly contains a file, or a glob that has a match."""
    path = expanded(name)
    if path.is_dir():
        return any(one.is_file() and not one.name.startswith(".") for one in path.iterdir())
    return path.exists() or bool(glob.glob(str(path), recursive=True))  # noqa: PTH207


def named_files(name: str) -> Found:
    """Return the file `name`, the files directly in this folder, or the matches of this glob.

    Files that are not text according to their names are left out.
    """
    path = expanded(name)
    if path.is_file():
        return Found((path,))
    if path.is_dir():
        return files_in_folder(name, path)
    if WILDCARDS & set(name):
        return files_of_glob(name)
    raise CorpusError(f"{name}: no such file or folder; give the texts to score as scoring.input (--input)")


def examined(
    path: Path, encoding: str = "utf-8", quoting: Quoting | Literal["auto"] = "auto"
) -> tuple[InputFile, list[LeftOut]]:
    """Return the file with its kind and encoding, which are detected from its content, and notes on how it is read.

    Raise DocumentError if it is an archive or a document, and EncodingError if its bytes are not text.
    """
    with file_reader(InputFile(path, "text", encoding)) as reader, reader.opener.outermost(reader.files[0]) as opened:
        if archive_kind(opened.head, opened.plain_name):
            raise DocumentError("is an archive; unpack it and give its files")
        kind = detect_format(opened.head, opened.plain_name)
        # Markdown and reStructuredText are scored line by line as plain text, without conversion.
        if kind in ("markdown", "rst"):
            kind = "text"
        if kind not in get_args(Kind):
            raise DocumentError(f"is a document ({kind}), which rnnlm run can read but scoring cannot; save it as .txt")
        if kind == "parquet":
            return InputFile(path, "parquet"), []
        found, text = decoded_beginning(opened.read(BEGINNING_BYTES), reader.files[0].label, reader.decoding)
        dialect = None
        if kind in ("csv", "tsv"):
            dialect = noted_dialect(text, reader.files[0].label, kind, quoting, reader.decoding)
        return InputFile(path, cast(Kind, kind), found, dialect), reader.report.left_out


@contextmanager
def file_reader(file: InputFile) -> Iterator[TextReader]:
    """Yield a reader of a text or a table, which may be compressed.

    NUL, unpaired surrogates and bytes that cannot be decoded are replaced by U+FFFD instead of raising an error, so
    that damaged text can be found by its scores.
    """
    with tempfile.TemporaryDirectory(prefix="rnnlm-score-") as scratch:
        source = SourceFile(file.path, file.label, file.path.name)
        config = CorpusConfig(
            format="text",
            encoding=file.encoding,
            undecodable="guess" if is_utf_8(file.encoding) else "replace",
            quoting=file.dialect.quoting if file.dialect else "auto",
        )
        reader = TextReader(source.label, [source], config, Path(scratch))
        reader.decoding = reader.decoding._replace(to_the_end=True)
        yield reader


def table(file: InputFile, row: str) -> InputFile:
    """Return the file if it is a table, else raise CorpusError. `row` names the content of a row, such as "pair"."""
    if file.kind == "text":
        raise CorpusError(f"{file.label}: expected a table (JSON Lines, csv, tsv or Parquet) with one {row} per row")
    return file


def input_states(files: tuple[InputFile, ...]) -> list[Any]:
    """Return the path, size and modification time of each file, by which changes of the inputs are detected.

    They include a database's write-ahead log, which may contain its newest rows.
    """
    paths = [file.path for file in files]
    logs = [Path(f"{file.path}.wal") for file in files if file.kind == "query"]
    return states([*paths, *(path for path in logs if path.exists())])
