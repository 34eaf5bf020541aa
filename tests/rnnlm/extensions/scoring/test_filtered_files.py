"""A filter that keeps every document leaves each file unchanged. Dropped documents are written to other files."""

import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnnlm.corpora.parquet_tables import open_parquet
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.document_reader import read_documents
from rnnlm.extensions.scoring.filtered_files import OutputFolder, Verdict, filter_file
from rnnlm.extensions.scoring.input_files import find_inputs
from rnnlm.extensions.scoring.scoring_config import ScoringConfig

PIECES = [
    *("a word ", "Zürich", "\n", "\r\n", "\r", "\n\n", " \n", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\t", "…"),
    *("\u00a0\n", "\ufeff", "𝔞", "語", "\x00", '"', '""', ",", ";", "\\", '\\"', "{", "}", '{"text": "x"}\n', "[1]"),
]
# No text begins with NUL, because the byte-order mark of UTF-16 and a NUL form the byte-order mark of UTF-32.
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: "".join(pieces).lstrip("\0"))
ODD_BYTES = st.lists(
    st.sampled_from([b"\xff", b"\xe9t\xe9", b"\xc3", b"\xe2\x82", b"\x81", b"\xf0\x9d", b"\xed\xa0\x80"])
)
DATA = st.one_of(
    TEXTS.map(lambda text: text.encode()),
    st.tuples(TEXTS, st.sampled_from(["utf-8-sig", "utf-16", "cp1252", "gb18030", "cp932"])).map(
        lambda drawn: drawn[0].encode(drawn[1], "replace")
    ),
    st.tuples(TEXTS, st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le"])).map(
        lambda drawn: ("\ufeff" + drawn[0]).encode(drawn[1])
    ),
    st.tuples(TEXTS, ODD_BYTES, TEXTS).map(lambda drawn: drawn[0].encode() + b"".join(drawn[1]) + drawn[2].encode()),
)
ANY_FILE = given(
    data=DATA,
    name=st.sampled_from(["a.txt", "a", "a.csv", "a.tsv", "a.jsonl"]),
    document=st.sampled_from(["line", "paragraph"]),
)
LIMITS = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
SCORE = {
    "a.jsonl": rb'(?:, )?"bits_per_byte": 1\.5',
    "a.csv": rb"[,;\t|](?:1\.5|bits_per_byte)",
    "a.tsv": rb"\t(?:1\.5|bits_per_byte)",
}


def check_filter_of(data: bytes, name: str, document: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / name).write_bytes(data)
        config = ScoringConfig.model_validate(
            {"input": str(folder / name), "output": "x.parquet", "document": document}
        )
        try:
            (file,) = find_inputs(config).files
            count = len(list(read_documents([file], config)))
        except CorpusError:
            return
        for reason in (None, "not kept"):
            verdicts = iter([Verdict(file.label, 1.5, reason)] * count)
            kept, dropped = OutputFolder(folder / "kept", folder), OutputFolder(folder / "dropped", folder)
            try:
                filter_file(file, config, verdicts, kept, dropped)
            except CorpusError as error:
                # A file cannot be copied if its encoding has other line ends or if the file ends within a character.
                assert "cannot be copied" in str(error)
                return
            written = (folder / "kept" / name).read_bytes()
            if reason is None:
                assert same(written, data, name, file.encoding)
            elif file.kind == "text":
                lines = (folder / "dropped" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
                assert len([json.loads(line) for line in lines]) == count


def same(written: bytes, data: bytes, name: str, encoding: str) -> bool:
    """Return True if `written` equals `data`, apart from scores and from empty cells that fill a short row."""
    if name not in SCORE or written == data:
        return written == data
    codec = re.sub("_", "-", encoding)
    wide = codec.startswith(("utf-16", "utf-32"))
    if wide and not codec.endswith(("le", "be")):
        codec += "-be" if data[:2] == b"\xfe\xff" else "-le"
    carried = [
        part.decode(codec, "surrogatepass").encode("utf-8", "surrogatepass") if wide else part
        for part in (written, data)
    ]
    without = re.sub(SCORE[name], b"", carried[0])
    padding = rb"[,;\t|]+(?=\r?\n|\r|$)" if name != "a.jsonl" else rb"(?!)"
    return re.sub(padding, b"", without) == re.sub(padding, b"", carried[1])


@pytest.mark.long
@settings(LIMITS, max_examples=150)
@ANY_FILE
def test_150_odd_files_come_out_as_they_went_in(data: bytes, name: str, document: str) -> None:
    check_filter_of(data, name, document)


@pytest.mark.slow
@settings(LIMITS, max_examples=3_000)
@ANY_FILE
def test_3000_odd_files_come_out_as_they_went_in(data: bytes, name: str, document: str) -> None:
    check_filter_of(data, name, document)


TEXTS_OF_ROWS = ["a first row", None, "a third row", "a fourth row"]
STRINGS: Any = pa.array(TEXTS_OF_ROWS, pa.string())
VIEWS = STRINGS.cast(pa.string_view())
COLUMNS = {
    "strings": STRINGS,
    "large strings": STRINGS.cast(pa.large_string()),
    "views": VIEWS,
    "views of bytes": STRINGS.cast(pa.binary()).cast(pa.binary_view()),
    "dictionary": STRINGS.dictionary_encode(),
    "views in structs": pa.StructArray.from_arrays([VIEWS, pa.array(range(4))], ["a", "b"]),
    "views in lists": pa.array([[text] for text in TEXTS_OF_ROWS]).cast(pa.list_(pa.string_view())),
    "views in large lists": pa.array([[text] for text in TEXTS_OF_ROWS]).cast(pa.large_list(pa.string_view())),
    "views in lists of one": pa.array([[text] for text in TEXTS_OF_ROWS]).cast(pa.list_(pa.string_view(), 1)),
    "views in maps": pa.array([[("a", text)] for text in TEXTS_OF_ROWS], pa.map_(pa.string(), pa.string_view())),
    "map": pa.array([[("a", text)] for text in TEXTS_OF_ROWS], pa.map_(pa.string(), pa.string())),
    "nothing": pa.nulls(4),
}


def filter_rows(folder: Path, data: bytes) -> tuple[Any, Any]:
    """Keep the first and the last of four rows. Return the kept and the dropped rows without the added columns."""
    (folder / "a.parquet").write_bytes(data)
    config = ScoringConfig.model_validate({"input": str(folder / "a.parquet"), "output": "x.parquet"})
    (file,) = find_inputs(config).files
    verdicts = iter([Verdict(file.label, 1.5, reason) for reason in (None, "long", "long", None)])
    filter_file(file, config, verdicts, *(OutputFolder(folder / name, folder) for name in ("kept", "dropped")))
    kept, dropped = (pq.read_table(folder / name / "a.parquet") for name in ("kept", "dropped"))
    assert (kept["bits_per_byte"].to_pylist(), dropped["reason"].to_pylist()) == ([1.5] * 2, ["long"] * 2)
    return kept.drop_columns(["bits_per_byte"]), dropped.drop_columns(["bits_per_byte", "reason"])


def parquet_file(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_of_parquet_keep_the_types_of_all_columns(tmp_path: Path, kind: str) -> None:
    table = pa.table({"text": STRINGS, "other": COLUMNS[kind]})
    kept, dropped = filter_rows(tmp_path, parquet_file(table))
    assert kept.schema.equals(table.schema)
    assert kept.to_pylist() == [table.to_pylist()[row] for row in (0, 3)]
    assert dropped.to_pylist() == [table.to_pylist()[row] for row in (1, 2)]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_rows_of_parquet_are_written_with_its_compression(tmp_path: Path, compression: str) -> None:
    filter_rows(tmp_path, parquet_file(pa.table({"text": STRINGS}), compression=compression))
    found = {
        pq.read_metadata(tmp_path / name).row_group(0).column(0).compression
        for name in ("a.parquet", "kept/a.parquet", "dropped/a.parquet")
    }
    assert len(found) == 1


@pytest.mark.parametrize("levels", [50, 100, 500])
def test_columns_of_deeply_nested_lists_are_kept(tmp_path: Path, levels: int) -> None:
    """Arrow alone cannot open a file with 100 levels, because it cannot read its own copy of the schema."""
    deep: Any = pa.array([f"value {row}" for row in range(4)])
    for _ in range(levels):
        deep = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), pa.StructArray.from_arrays([deep], ["a"]))
    (tmp_path / "a.parquet").write_bytes(parquet_file(pa.table({"text": STRINGS, "other": deep})))
    config = ScoringConfig.model_validate({"input": str(tmp_path / "a.parquet"), "output": "x.parquet"})
    (file,) = find_inputs(config).files
    verdicts = iter([Verdict(file.label, 1.5, reason) for reason in (None, "long", "long", None)])
    filter_file(file, config, verdicts, *(OutputFolder(tmp_path / name, tmp_path) for name in ("kept", "dropped")))
    with open_parquet(tmp_path / "kept" / "a.parquet") as kept:
        assert next(kept.iter_batches(columns=["bits_per_byte"])).to_pydict() == {"bits_per_byte": [1.5, 1.5]}
        (other,) = kept.iter_batches(columns=["other"])
        column = other["other"]
        for _ in range(levels):
            column = column.flatten().field("a")
        assert column.to_pylist() == ["value 0", "value 3"]


def test_damage_in_a_column_that_was_not_scored_is_told(tmp_path: Path) -> None:
    table = pa.table({"text": STRINGS, "other": pa.array([f"value {row}" for row in range(4)])})
    data = parquet_file(table, use_dictionary=False, compression="none", write_page_checksum=True)
    with pytest.raises(CorpusError, match="damaged or truncated Parquet data"):
        filter_rows(tmp_path, data.replace(b"value 2", b"value 3", 1))
    assert not (tmp_path / "kept" / "a.parquet").exists()
