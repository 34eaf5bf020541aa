"""Write the kept and the dropped documents of one input file in its own format and compression."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.corpora.compression import HEAD_BYTES, compression_of
from rnnlm.corpora.split_names import uncompressed_name
from rnnlm.corpora.splits import paragraphs
from rnnlm.corpora.table_files import CSV_DIALECTS, csv_reader
from rnnlm.corpora.text_encoding import single_lines, text_pieces
from rnnlm.errors import ConfigError, CorpusError, HomeError
from rnnlm.extensions.scoring.document_reader import file_reader
from rnnlm.extensions.scoring.input_files import InputFile
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.contained_paths import LONGEST_PART_BYTES
from rnnlm.storage.home import atomic_file, digest_of, expanded

SCORE, REASON = "bits_per_byte", "reason"  # columns that the output adds; columns of these names are replaced
SCORE_DIGITS = 6  # of the score, in text formats
json_of = json.JSONEncoder(ensure_ascii=False).encode
T = TypeVar("T")


class Verdict(NamedTuple):
    source: str
    bits_per_byte: float | None
    reason: str | None  # why the document is dropped; None: it is kept

    def columns(self) -> dict[str, Any]:
        """The added columns: the score and, of a dropped document, the reason."""
        score = None if self.bits_per_byte is None else round(self.bits_per_byte, SCORE_DIGITS)
        return {SCORE: score} if self.reason is None else {SCORE: score, REASON: self.reason}


Verdicts = Iterator[Verdict]  # on the documents of one file, in order


@dataclass(frozen=True)
class OutputFolder:
    """A folder that gets a file for each input file."""

    folder: Path
    above: Path  # the folder that holds all input files

    def target(self, file: InputFile, *, as_json: bool = False) -> Path:
        """The file's name, in the same subfolder. as_json: NAME.jsonl, in the same compression.

        Of a name that becomes too long for a file, the beginning and a digest stay.
        """
        path = self.folder / file.path.resolve().relative_to(self.above)
        if as_json:
            plain = uncompressed_name(path.name)
            ending = f".jsonl{path.name.removeprefix(plain)}"
            if len(os.fsencode(plain + ending)) > LONGEST_PART_BYTES:
                plain = f"{plain[:40]}-{digest_of(plain)[:16]}"
            path = path.with_name(plain + ending)
        return path


def output_folder(name: str, files: list[InputFile], option: str) -> OutputFolder:
    """ConfigError if the folder is a file, or holds the inputs themselves."""
    folder = expanded(name).resolve()
    parents = [file.path.resolve().parent for file in files]
    above = Path(os.path.commonpath(parents)) if parents else folder
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{option} {name}: is a file, expected a folder")
    if parents and folder == above:
        raise ConfigError(f"{option} {name}: holds the input, which would be replaced; give another folder")
    return OutputFolder(folder, above)


def filter_file(
    file: InputFile, config: ScoringConfig, verdicts: Verdicts, kept: OutputFolder, dropped: OutputFolder | None
) -> None:
    """Copy each document of the file to one of the folders, with its score.

    Every other column stays as it is. Plain text has no columns: its kept documents are copied, its dropped ones become
    JSON Lines. An existing file is replaced, atomically. CorpusError if there is not one verdict for each document.
    """
    label = str(file.path)
    with (
        file_reader(file.path) as reader,
        reader.opener.outermost(reader.files[0]) as opened,
        atomic_output(kept.target(file)) as kept_path,
        atomic_output(dropped.target(file, as_json=file.kind == "text") if dropped else None) as dropped_path,
    ):
        if file.kind == "parquet":
            with reader.opener.seekable(opened) as table:
                filter_parquet(table, label, verdicts, kept_path, dropped_path)
            return
        compression = compression_of(head_of(file.path))
        lines = single_lines(text_pieces(opened, label, reader.decoding))
        with text_writer(kept_path, compression) as keep, text_writer(dropped_path, compression) as drop:
            if file.kind == "text":
                filter_text(paired(documents_in(lines, config), verdicts, label), keep, drop)
            elif file.kind == "jsonl":
                objects = (line for line in lines if not line.isspace())
                filter_json_lines(paired(objects, verdicts, label), keep, drop)
            else:
                rows = csv_reader(lines, file.kind)
                heads: list[str] = next(rows, [])
                dialect = CSV_DIALECTS[file.kind]
                filter_csv(heads, paired(filter(None, rows), verdicts, label), dialect, keep, drop)


def paired(documents: Iterable[T], verdicts: Verdicts, label: str) -> Iterator[tuple[T, Verdict]]:
    """Each document with its verdict."""
    for document in documents:
        verdict = next(verdicts, None)
        if verdict is None:
            raise changed(label)
        yield document, verdict
    if next(verdicts, None) is not None:
        raise changed(label)


def changed(label: str) -> CorpusError:
    return CorpusError(f"{label}: has changed since it was scored; run the same command again")


def documents_in(lines: Iterator[str], config: ScoringConfig) -> Iterator[str]:
    """The documents of a plain text, with their line ends."""
    if config.document == "line":
        return lines
    return (data.decode("utf-8") for data in paragraphs(line.encode("utf-8") for line in lines))


def filter_text(found: Iterator[tuple[str, Verdict]], keep: TextIO, drop: TextIO) -> None:
    for text, verdict in found:
        if verdict.reason is None:
            keep.write(text)
        else:
            row = {"text": text.rstrip("\n"), **verdict.columns()}
            drop.write(json_of(row) + "\n")


def filter_json_lines(found: Iterator[tuple[str, Verdict]], keep: TextIO, drop: TextIO) -> None:
    for line, verdict in found:
        (keep if verdict.reason is None else drop).write(with_members(line, verdict.columns()))


def with_members(line: str, members: dict[str, Any]) -> str:
    """The line of a JSON object with members added; everything else stays, byte for byte."""
    if any(f'"{name}"' in line for name in (SCORE, REASON)):  # perhaps the output of an earlier filter
        row = {name: value for name, value in json.loads(line, strict=False).items() if name not in (SCORE, REASON)}
        return json_of(row | members) + "\n"
    opened = line.rstrip().removesuffix("}").rstrip()
    comma = "" if opened.endswith("{") else ", "
    spelled = [(name, repr(value) if isinstance(value, float) else json_of(value)) for name, value in members.items()]
    added = ", ".join([f'"{name}": {value}' for name, value in spelled])
    return f"{opened}{comma}{added}}}\n"


def filter_csv(
    heads: list[str], found: Iterator[tuple[list[str], Verdict]], dialect: str, keep: TextIO, drop: TextIO
) -> None:
    own = [place for place, head in enumerate(heads) if head not in (SCORE, REASON)]
    kept, dropped = (csv.writer(out, dialect=dialect, lineterminator="\n") for out in (keep, drop))
    if heads:
        kept.writerow([*(heads[place] for place in own), SCORE])
        dropped.writerow([*(heads[place] for place in own), SCORE, REASON])
    for row, verdict in found:
        cells = [row[place] for place in own if place < len(row)]
        (kept if verdict.reason is None else dropped).writerow([*cells, *verdict.columns().values()])


def filter_parquet(table: IO[bytes], label: str, verdicts: Verdicts, keep: Path, drop: Path) -> None:
    """Row group by row group."""
    with pq.ParquetFile(table) as source, ExitStack() as files:
        metadata = source.metadata
        groups = metadata.num_row_groups
        compression = metadata.row_group(0).column(0).compression if groups and metadata.num_columns else "ZSTD"
        own = [field for field in source.schema_arrow if field.name not in (SCORE, REASON)]
        added = [pa.field(SCORE, pa.float64())]
        schemas = [
            pa.schema([*own, *fields], source.schema_arrow.metadata)
            for fields in (added, [*added, pa.field(REASON, pa.string())])
        ]
        writers = [
            files.enter_context(pq.ParquetWriter(out, schema, compression=compression))
            for out, schema in zip((keep, drop), schemas, strict=True)
        ]
        decided = paired(range(metadata.num_rows), verdicts, label)
        for group in range(groups):
            rows = source.read_row_group(group, columns=[field.name for field in own], use_threads=False)
            found = [verdict for _, verdict in islice(decided, rows.num_rows)]
            rows = rows.append_column(SCORE, pa.array([one.bits_per_byte for one in found], pa.float64()))
            reasons = pa.array([one.reason for one in found], pa.string())
            writers[0].write_table(rows.filter(reasons.is_null()).cast(schemas[0]))
            writers[1].write_table(rows.append_column(REASON, reasons).filter(reasons.is_valid()).cast(schemas[1]))
        next(decided, None)  # raises an error if there are more verdicts than rows


@contextmanager
def atomic_output(final: Path | None) -> Iterator[Path]:
    """A path to write to, which becomes `final`; what is written for None is discarded."""
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
def text_writer(path: Path, compression: str | None) -> Iterator[TextIO]:
    """UTF-8 in a compression of compression_of(); the same text gives the same bytes."""
    with path.open("wb") as file:
        raw: Any = file
        if compression == "gzip":
            raw = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        elif compression == "bzip2":
            raw = bz2.BZ2File(file, "wb")
        elif compression == "xz":
            raw = lzma.LZMAFile(file, "wb")  # noqa: SIM115 (the writer closes it)
        elif compression == "zstd":
            raw = pa.CompressedOutputStream(pa.PythonFile(file, mode="w"), "zstd")
        with io.TextIOWrapper(raw, "utf-8", newline="\n") as writer:
            yield writer


def head_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEAD_BYTES)
