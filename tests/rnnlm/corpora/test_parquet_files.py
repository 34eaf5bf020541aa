"""A Parquet file of any layout is read. A damaged or malicious file is refused with a reason of one sentence."""

import io
import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home

TEXTS = ["the first row", "the second\nrow", None, "the third row"]
READ = "the first row\nthe second\nrow\nthe third row\n"


def written(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def of_type(kind: Any) -> Any:
    """Return a table with a column `text` of the given Arrow type, which is cast from strings."""
    texts = pa.array(TEXTS, pa.string())
    binary = texts.cast(pa.binary()) if "binary" in str(kind) else texts
    return pa.table({"text": binary.cast(kind)})


def nested(levels: int, lists: bool) -> Any:
    """Return a table with a text and a column of structs, or of structs in lists, that are nested `levels` times."""
    values: Any = pa.array(TEXTS, pa.string())
    for _ in range(levels):
        values = pa.StructArray.from_arrays([values], ["a"])
        if lists:
            values = pa.ListArray.from_arrays(pa.array(range(len(TEXTS) + 1), pa.int32()), values)
    return pa.table({"text": pa.array(TEXTS, pa.string()), "deep": values})


def with_empty_groups() -> bytes:
    out = io.BytesIO()
    whole = of_type(pa.string())
    with pq.ParquetWriter(out, whole.schema) as writer:
        for group in (whole[:0], whole[:2], whole[:0], whole[:0], whole[2:], whole[:0]):
            writer.write_table(group)
    return out.getvalue()


STRINGS = of_type(pa.string())
PLAIN = written(STRINGS)
KINDS = [
    *(pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.binary())),
]
LAYOUTS = {
    **{str(kind): written(of_type(kind)) for kind in KINDS},
    "one row a group": written(STRINGS, row_group_size=1),
    "empty groups": with_empty_groups(),
    "pages of version 2": written(STRINGS, data_page_version="2.0", compression="brotli"),
    "deltas": written(STRINGS, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}),
    "no compression": written(STRINGS, compression="none"),
    "checksums": written(STRINGS, write_page_checksum=True),
    "other columns of one name": written(
        pa.Table.from_arrays([STRINGS["text"], STRINGS["text"], pa.array(range(4))], ["text", "id", "id"])
    ),
    "odd names": written(pa.Table.from_arrays([STRINGS["text"]] * 4, ["text", "", "a.b", "x\ny"])),
    "magic of the end alone": b"XXXX" + PLAIN[4:],
    **{f"{levels} structs": written(nested(levels, lists=False)) for levels in (50, 200, 500)},
    **{f"{levels} structs in lists": written(nested(levels, lists=True)) for levels in (50, 100, 500)},
    "500 structs in lists without Arrow's schema": written(nested(500, lists=True), store_schema=False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_read(home: Home, tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(LAYOUTS[layout])
    corpus = obtain_corpus(home, CorpusConfig(source=str(path)))
    assert (corpus.folder / "text.txt").read_text(encoding="utf-8") == READ


@pytest.mark.parametrize("column", ["data.text", "more.data.text"])
def test_a_nested_column_is_read(home: Home, tmp_path: Path, column: str) -> None:
    inner: Any = pa.array([{"text": text, "number": 1} for text in TEXTS])
    table = pa.table({"data": inner, "more": pa.StructArray.from_arrays([inner], ["data"])})
    (tmp_path / "a.parquet").write_bytes(written(table))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.parquet"), column=column))
    assert (corpus.folder / "text.txt").read_text(encoding="utf-8") == READ


def in_column(values: Any) -> bytes:
    return written(pa.table({"text": values}))


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def with_length(length: int) -> bytes:
    """Return a Parquet file whose last bytes declare a footer of `length` bytes."""
    return PLAIN[:-8] + struct.pack("<I", length) + b"PAR1"


CHECKED = written(STRINGS, use_dictionary=False, compression="none", write_page_checksum=True)
HUGE = "a" * 100_000
REFUSED = {
    "no column": (written(pa.table({})), "has no column 'text'"),
    "two columns": (written(pa.Table.from_arrays([STRINGS["text"]] * 2, ["text", "text"])), "has 2 columns 'text'"),
    "no row": (written(STRINGS[:0]), "is empty"),
    "nulls": (in_column(pa.nulls(3)), "is empty"),
    "struct": (in_column(pa.array([{"a": "x"}])), "holds dict, expected text"),
    "list": (in_column(pa.array([["x"]])), "holds list, expected text"),
    "map": (in_column(pa.array([[("a", "x")]], pa.map_(pa.string(), pa.string()))), "expected text"),
    "numbers": (in_column(pa.array([2**64 - 1], pa.uint64())), "expected text"),
    "unknown zone": (in_column(pa.array([2**40], pa.timestamp("ms", "Not/AZone"))), "which is not read"),
    "dictionary bomb": (
        in_column(pa.DictionaryArray.from_arrays(pa.array([0] * 99_999, pa.int32()), pa.array([HUGE]))),
        "unpacks to more than 200 times",
    ),
    "nothing": (b"", "damaged or truncated"),
    "magic": (b"PAR1", "damaged or truncated"),
    "truncated": (PLAIN[: len(PLAIN) // 2], "damaged or truncated"),
    "no footer": (with_length(0), "damaged or truncated"),
    "footer of 2 GiB": (with_length(2**31 - 1), "damaged or truncated"),
    "footer of -1 bytes": (with_length(2**32 - 1), "damaged or truncated"),
    "deep footer": (b"PAR1" + b"\x1c" * 99_999 + struct.pack("<I", 99_999) + b"PAR1", "damaged or truncated"),
    "long list": (
        b"PAR1\x15\x02\x29\xfc\xff\xff\xff\xff\x07" + struct.pack("<I", 9) + b"PAR1",
        "damaged or truncated",
    ),
    "Arrow's copy of the schema": (flipped(PLAIN, PLAIN.index(b"ARROW:schema") + 26), "Invalid flatbuffers"),
    "encrypted": (b"PARE" + PLAIN[4:-4] + b"PARE", "is encrypted"),
    "flipped bit": (flipped(CHECKED, CHECKED.index(b"second")), "damaged or truncated"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_file_is_refused_with_its_reason(home: Home, tmp_path: Path, name: str) -> None:
    data, reason = REFUSED[name]
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=reason):
        obtain_corpus(home, CorpusConfig(source=str(path)))


@pytest.mark.long
def test_400_damaged_files_are_read_or_refused(home: Home, tmp_path: Path) -> None:
    """Files in which pages, page headers or the footer have changed bytes are read or refused with a CorpusError."""
    draw = random.Random(0)
    path = tmp_path / "a.parquet"
    for _ in range(400):
        data = bytearray(LAYOUTS[draw.choice(sorted(LAYOUTS))])
        for _ in range(draw.choice([1, 1, 2, 5])):
            place, size = draw.randrange(4, len(data) - 8), draw.choice([1, 1, 5])
            data[place : min(place + size, len(data) - 8)] = draw.choice([b"\xff", b"\x00", b"\x80"]) * min(
                size, len(data) - 8 - place
            )
        path.write_bytes(data)
        try:
            obtain_corpus(home, CorpusConfig(source=str(path)), force=True)
        except CorpusError as error:
            assert "a.parquet" in str(error)
