"""Write the kept and the dropped documents of an input file in the format and compression of the input."""

import bz2
import gzip
import io
import json
import lzma
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.corpora.compression import HEAD_BYTES, compression_of, damage_explained
from rnnlm.corpora.csv_dialects import Dialect
from rnnlm.corpora.parquet_tables import open_parquet
from rnnlm.corpora.split_names import uncompressed_name
from rnnlm.corpora.splits import paragraphs
from rnnlm.corpora.text_encoding import single_lines
from rnnlm.errors import ConfigError, CorpusError, HomeError
from rnnlm.extensions.scoring.input_files import InputFile, file_reader
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.spliced_rows import (
    JSON_SCRIPT,
    Script,
    rows_where,
    schema_with,
    script_of,
    with_cells,
    with_columns,
    with_members,
)
from rnnlm.storage.contained_paths import LONGEST_PART_BYTES
from rnnlm.storage.home import atomic_file, digest_of, expanded

SCORE, REASON = (
    "bits_per_byte",
    "reason",
)  # The columns that are added to the output. They replace input columns with the same names.
SCORE_DIGITS = 6  # The number of digits after the decimal point of a score in a text format.
ADDED = (pa.field(SCORE, pa.float64()), pa.field(REASON, pa.string()))
json_of = json.JSONEncoder().encode  # The encoder's output is ASCII, which is valid in all encodings of JSON files.
T = TypeVar("T")


class Verdict(NamedTuple):
    source: str
    bits_per_byte: float | None
    reason: str | None  # The reason for dropping the document, or None to keep it.

    def columns(self) -> dict[str, Any]:
        """Return the added columns: the score and, if the document is dropped, the reason."""
        score = None if self.bits_per_byte is None else round(self.bits_per_byte, SCORE_DIGITS)
        # A score of infinity or NaN becomes null, because JSON has no such numbers.
        score = score if score is None or math.isfinite(score) else None
        return {SCORE: score} if self.reason is None else {SCORE: score, REASON: self.reason}


Verdicts = Iterator[Verdict]  # The verdicts on the documents of one file, in the order of the documents.


@dataclass(frozen=True)
class OutputFolder:
    """An output folder that gets one file for each input file."""

    folder: Path
    # The deepest folder that contains all input files. A path in the output folder corresponds to a path relative to
    # it.
    above: Path

    def target(self, file: InputFile, *, as_json: bool = False) -> Path:
        """Return the path of an input file's output, in the same subfolder of the output folder.

        If `as_json` is True, the name becomes NAME.jsonl, followed by the suffix of the input's compression. A name
        that is too long for the file system is shortened to its beginning and a digest.
        """
        path = self.folder / file.path.resolve().relative_to(self.above)
        if as_json:
            plain = uncompressed_name(path.name)
            ending = f".jsonl{path.name.removeprefix(plain)}"
            if len(os.fsencode(plain + ending)) > LONGEST_PART_BYTES:
                plain = f"{plain[:40]}-{digest_of(plain)[:16]}"
            path = path.with_name(plain + ending)
        return path


def output_folder(name: str, files: Sequence[InputFile], option: str) -> OutputFolder:
    """Return the folder for filtered files. Raise ConfigError if `name` is a file or the folder of the inputs."""
    folder = expanded(name).resolve()
    parents = [file.path.resolve().parent for file in files]
    above = Path(os.path.commonpath(parents)) if parents else folder
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{option} {name}: is a file, expected a folder")
    if parents and folder == above:
        raise ConfigError(f"{option} {name}: contains the input, which would be replaced; give another folder")
    return OutputFolder(folder, above)


def filter_file(
    file: InputFile, config: ScoringConfig, verdicts: Verdicts, kept: OutputFolder, dropped: OutputFolder | None
) -> None:
    """Copy each document of the file byte for byte to the folder `kept` or `dropped`, and add its score.

    Plain text has no columns for a score. Its kept documents are copied without a score, and its dropped documents are
    written as JSON Lines. Blank lines of tables, which are not documents, are kept. An existing output file is replaced
    atomically. Raise CorpusError if there are more or fewer verdicts than documents.
    """
    as_json = file.kind == "text"
    with (
        file_reader(file) as reader,
        reader.opener.outermost(reader.files[0]) as opened,
        atomic_output(kept.target(file)) as kept_path,
        atomic_output(dropped.target(file, as_json=as_json) if dropped else None) as dropped_path,
    ):
        if file.kind == "parquet":
            with reader.opener.seekable(opened) as table:
                filter_parquet(table, file.label, verdicts, kept_path, dropped_path)
            return
        compression = compression_of(head_of(file.path))
        script = script_of(file, opened.head)
        lines = script.lines(opened, file.label)
        with (
            text_writer(kept_path, compression, script) as keep,
            text_writer(dropped_path, compression, JSON_SCRIPT if as_json else script) as drop,
        ):
            if file.kind in ("csv", "tsv"):
                assert file.dialect is not None
                filter_csv(file.dialect, lines, verdicts, file.label, script, keep, drop)
                return
            as_read = single_lines(reader.pieces_of_file(reader.files[0]))
            both = matched(lines, as_read, file.label)
            if file.kind == "jsonl":
                filter_json_lines(both, verdicts, file.label, keep, drop)
            else:
                filter_text(paired(documents_in(both, config), verdicts, file.label), keep, drop)


def paired(documents: Iterable[T], verdicts: Verdicts, label: str) -> Iterator[tuple[T, Verdict]]:
    """Yield each document with its verdict."""
    for document in documents:
        yield document, verdict_on_next(verdicts, label)
    if next(verdicts, None) is not None:
        raise changed(label)


def verdict_on_next(verdicts: Verdicts, label: str) -> Verdict:
    verdict = next(verdicts, None)
    if verdict is None:
        raise changed(label)
    return verdict


def changed(label: str) -> CorpusError:
    return CorpusError(f"{label}: has changed since it was scored; run the same command again")


def matched(lines: Iterator[str], as_read: Iterator[str], label: str) -> Iterator[tuple[str, str]]:
    """Yield each original line together with its text as it was read for scoring."""
    try:
        yield from zip(lines, as_read, strict=True)
    except ValueError:
        raise changed(label) from None


def documents_in(both: Iterator[tuple[str, str]], config: ScoringConfig) -> Iterator[tuple[str, str]]:
    """Yield each document of a plain text in two forms: the original, and the text that was read for scoring."""
    if config.document == "line":
        yield from both
        return
    waiting: deque[str] = deque()  # The original lines of the paragraph that is not complete yet.

    def as_read() -> Iterator[bytes]:
        for line, read in both:
            waiting.append(line)
            yield read.encode("utf-8")

    for data in paragraphs(as_read()):
        text = data.decode("utf-8")
        count = text.count("\n") + (not text.endswith("\n"))
        yield "".join(waiting.popleft() for _ in range(count)), text


def filter_text(found: Iterator[tuple[tuple[str, str], Verdict]], keep: TextIO, drop: TextIO) -> None:
    for (text, as_read), verdict in found:
        if verdict.reason is None:
            keep.write(text)
        else:
            drop.write(json_of({"text": as_read.rstrip("\n"), **verdict.columns()}) + "\n")


def filter_json_lines(
    both: Iterator[tuple[str, str]], verdicts: Verdicts, label: str, keep: TextIO, drop: TextIO
) -> None:
    for line, as_read in both:
        if as_read.isspace():
            keep.write(line)
            continue
        verdict = verdict_on_next(verdicts, label)
        members = {name: json_of(value) for name, value in verdict.columns().items()}
        (keep if verdict.reason is None else drop).write(with_members(line, members))
    if next(verdicts, None) is not None:
        raise changed(label)


def filter_csv(
    dialect: Dialect,
    lines: Iterator[str],
    verdicts: Verdicts,
    label: str,
    script: Script,
    keep: TextIO,
    drop: TextIO,
) -> None:
    heads: list[str] = []
    for record, cells in dialect.records(lines):
        if not cells:
            keep.write(record)
        elif not heads:
            heads = cells
            keep.write(with_cells(record, heads, {SCORE: SCORE}, dialect))
            drop.write(with_cells(record, heads, {SCORE: SCORE, REASON: REASON}, dialect))
        else:
            verdict = verdict_on_next(verdicts, label)
            values = {
                name: "" if value is None else script.carried(dialect.spelled(str(value)))
                for name, value in verdict.columns().items()
            }
            (keep if verdict.reason is None else drop).write(with_cells(record, heads, values, dialect))
    if next(verdicts, None) is not None:
        raise changed(label)


def filter_parquet(table: IO[bytes], label: str, verdicts: Verdicts, keep: Path, drop: Path) -> None:
    """Filter a Parquet file, one row group at a time. Raise CorpusError if a column that was not scored is damaged."""
    with ExitStack() as files:
        with damage_explained(label, "Parquet"):
            source = files.enter_context(open_parquet(table))
            metadata = source.metadata
            groups = metadata.num_row_groups
            compression = metadata.row_group(0).column(0).compression if groups and metadata.num_columns else "ZSTD"
        compression = {"UNCOMPRESSED": "NONE", "UNKNOWN": "ZSTD"}.get(compression, compression)
        writers = [
            files.enter_context(
                pq.ParquetWriter(out, schema_with(source.schema_arrow, fields), compression=compression)
            )
            for out, fields in ((keep, ADDED[:1]), (drop, ADDED))
        ]
        decided = paired(range(metadata.num_rows), verdicts, label)
        for group in range(groups):
            with damage_explained(label, "Parquet"):
                rows = source.read_row_group(group, use_threads=False)
            found = [verdict for _, verdict in islice(decided, rows.num_rows)]
            scores = pa.array([one.bits_per_byte for one in found], pa.float64())
            reasons = pa.array([one.reason for one in found], pa.string())
            writers[0].write_table(rows_where(with_columns(rows, ADDED[:1], [scores]), reasons.is_null()))
            writers[1].write_table(rows_where(with_columns(rows, ADDED, [scores, reasons]), reasons.is_valid()))
        next(decided, None)  # Check that there are no more verdicts than rows.


@contextmanager
def atomic_output(final: Path | None) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to `final` at the end. If `final` is None, the file is discarded."""
    if final is None:
        yield Path(os.devnull)
        return
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(final) as partial:
            yield partial
    except OSError as error:
        raise HomeError(f"{final}: cannot be written ({error.strerror or error}); give another folder") from error


@contextmanager
def text_writer(path: Path, compression: str | None, script: Script) -> Iterator[TextIO]:
    """Yield a text file that is written with the given compression. Equal texts give equal bytes."""
    with path.open("wb") as file:
        raw: Any = file
        if compression == "gzip":
            raw = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        elif compression == "bzip2":
            raw = bz2.BZ2File(file, "wb")
        elif compression in ("xz", "lzma"):
            form = lzma.FORMAT_XZ if compression == "xz" else lzma.FORMAT_ALONE
            raw = lzma.LZMAFile(file, "wb", format=form)  # noqa: SIM115 (the writer closes it)
        elif compression == "zstd":
            raw = pa.CompressedOutputStream(pa.PythonFile(file, mode="w"), "zstd")
        with io.TextIOWrapper(raw, script.codec, script.errors, newline="") as writer:
            writer.write(script.mark)
            yield writer


def head_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEAD_BYTES)
