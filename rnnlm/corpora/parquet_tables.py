"""Reader of the columns of Parquet files, row by row."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.corpora.compression import Meter, damage_explained
from rnnlm.corpora.printable_names import printable
from rnnlm.corpora.table_cells import NoColumnError, Row, Spelled, TableError, place_of
from rnnlm.corpora.text_encoding import GUESSED_BYTES, Decoding, guess_encoding, guess_told
from rnnlm.errors import CorpusError

PARQUET_ROWS_AT_ONCE = 256
DEEP_LEVELS = 50  # The number of nested structs and lists that Arrow reads in any case.
TEXT_TYPES = (  # The Arrow types that are read as text. They include bytes.
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)


def parquet_rows(
    file: Path | IO[bytes], label: str, columns: list[str], decoding: Decoding, meter: Meter
) -> Iterator[Row]:
    """Yield the cells of the given columns for each row as Python objects.

    At most PARQUET_ROWS_AT_ONCE rows are read at a time.
    """
    with damage_explained(label, "Parquet"), open_parquet(file) as table:
        schema = table.schema_arrow
        paths = [[column] if column in schema.names else column.split(".") for column in columns]
        kinds = [kind_of_column(schema, parts, label) for parts in paths]
        for batch in table.iter_batches(PARQUET_ROWS_AT_ONCE, columns=columns, use_threads=False):
            found = [
                cells_in(batch, parts, kind, label, decoding, meter) for parts, kind in zip(paths, kinds, strict=True)
            ]
            yield from ((label, cells) for cells in zip(*found, strict=True))


def open_parquet(file: Path | IO[bytes]) -> pq.ParquetFile:
    """Open a Parquet file, and verify the checksums of its pages.

    Arrow cannot read its own copy of a schema with more than about 60 nested lists of structs. Such a file is opened by
    the schema of Parquet alone. If the columns are not nested that deeply, the copy is damaged.
    """
    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except OSError as error:
        if "flatbuffers" not in str(error):
            raise
        metadata = metadata_without_arrow_schema(file)
        depths = [metadata.schema.column(index).path.count(".") for index in range(metadata.num_columns)]
        if max(depths, default=0) < DEEP_LEVELS:
            raise
    return pq.ParquetFile(file, metadata=metadata, page_checksum_verification=True)


def metadata_without_arrow_schema(file: Path | IO[bytes]) -> Any:
    """Return the metadata of a Parquet file without Arrow's copy of the schema."""
    with contextlib.ExitStack() as opened:
        stream = opened.enter_context(file.open("rb")) if isinstance(file, Path) else file
        stream.seek(-8, os.SEEK_END)
        ending = stream.read(8)  # These bytes are the length of the footer and the magic number.
        length = int.from_bytes(ending[:4], "little")
        stream.seek(-8 - length, os.SEEK_END)
        footer = stream.read(length).replace(b"ARROW:schema", b"other:schema")
        stream.seek(0)
    return pq.read_metadata(pa.BufferReader(b"PAR1" + footer + ending))


def kind_of_column(schema: Any, parts: list[str], label: str) -> Any:
    """Return the Arrow type of a column, which may be nested in structs.

    Raise NoColumnError if there is no such column, and TableError if several have its name.
    """
    kind = pa.struct(list(schema))
    for part in parts:
        names = [field.name for field in kind] if pa.types.is_struct(kind) else []
        if part not in names:
            raise NoColumnError(label, ".".join(parts), schema.names)
        kind = kind.field(place_of(part, names, label)).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def unpacked_bytes(cells: Any) -> int:
    """Return the number of bytes of a column's values.

    In a dictionary-encoded column, each occurrence of a value is counted.
    """
    import pyarrow.compute

    if not pa.types.is_dictionary(cells.type) or not any(is_kind(cells.type.value_type) for is_kind in TEXT_TYPES):
        return int(cells.nbytes)
    lengths = pyarrow.compute.binary_length(cells.dictionary.cast(pa.large_binary())).take(cells.indices)
    return pyarrow.compute.sum(lengths.cast(pa.int64())).as_py() or 0


def cells_in(batch: Any, parts: list[str], kind: Any, label: str, decoding: Decoding, meter: Meter) -> list[Any]:
    """Return the values of a column.

    Text and bytes are decoded here, because Arrow does not check that strings are UTF-8.
    """
    import pyarrow.compute

    cells = batch.column(parts[0])
    for part in parts[1:]:
        cells = pyarrow.compute.struct_field(cells, part)
    meter.add(unpacked_bytes(cells), label)
    is_text = any(is_kind(kind) for is_kind in TEXT_TYPES)
    try:
        if is_text:
            values: list[Any] = cells.cast(kind).cast(pa.large_binary()).to_pylist()
            return [decoded(value, label, decoding) for value in values]
        # Dates and times are converted to text by Arrow, because Python's dates have no nanoseconds and end with the
        # year 9999.
        if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
            values = cells.cast(kind).cast(pa.string()).to_pylist()
            return [None if value is None else Spelled(value) for value in values]
        return list(cells.to_pylist())
    except (pa.ArrowNotImplementedError, ValueError, OverflowError) as error:
        raise TableError(
            f"{label}: column {'.'.join(parts)!r} holds {kind}, which is not read ({printable(str(error))});\n"
            "store it as text"
        ) from error


def decoded(cell: bytes | None, label: str, decoding: Decoding) -> str | None:
    """Decode a cell as UTF-8, which is the encoding of Parquet. Return None for None.

    If this fails, corpus.undecodable determines whether the encoding is guessed or bytes are replaced by U+FFFD.
    """
    if cell is None:
        return None
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"a cell's byte {error.start} is not utf-8: {error.reason}"
    if decoding.undecodable == "refuse":
        raise CorpusError(f"{label}: {place}; set corpus.undecodable=replace")
    guess = guess_encoding(cell[:GUESSED_BYTES], "utf-8") if decoding.undecodable == "guess" else None
    told = guess_told(cell, guess) if guess else "it is read as U+FFFD"
    decoding.note(label, f"{place}; {told}")
    return cell.decode(guess or "utf-8", "replace")
