"""Cells of every type are read as text, or refused with an explanation. Numbers keep their digits."""

import datetime
import io
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.corpora.table_cells import TableError, cell_text
from rnnlm.corpora.table_files import parse_json
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.test_file_formats import refused, stored, write

DAY = datetime.date(2024, 1, 2)
# For each type: values, and the first value as text. None means that the values are already text.
ARROW: dict[str, tuple[pa.Array, str | None]] = {
    "string": (pa.array(["Zürich", None]), None),
    "large string": (pa.array(["Zürich", None], pa.large_string()), None),
    "string view": (pa.array(["Zürich", None], pa.string_view()), None),
    "dictionary": (pa.array(["Zürich", None]).dictionary_encode(), None),
    "binary": (pa.array(["Zürich".encode(), None], pa.binary()), None),
    "large binary": (pa.array(["Zürich".encode(), None], pa.large_binary()), None),
    "binary view": (pa.array(["Zürich".encode(), None], pa.binary_view()), None),
    "fixed binary": (pa.array(["Zürich".encode(), None], pa.binary(7)), None),
    "binary in another encoding": (pa.array(["Zürich".encode("cp1252"), None], pa.binary()), None),
    "integer": (pa.array([2**64 - 1, None], pa.uint64()), "18446744073709551615"),
    "float": (pa.array([0.1, None]), "0.1"),
    "half float": (pa.array([1.5, None], pa.float16()), "1.5"),
    "decimal": (pa.array([Decimal("1.10"), None]), "1.10"),
    "boolean": (pa.array([True, None]), "true"),
    "date": (pa.array([DAY, None]), "2024-01-02"),
    "time": (pa.array([5, None], pa.time64("ns")), "00:00:00.000000005"),
    "nanoseconds": (pa.array([1, None], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001"),
    "list of bytes": (pa.array([[b"x", None], None]), '["x", null]'),
    "struct": (pa.array([{"a": DAY, "b": Decimal("1.10")}, None]), '{"a": "2024-01-02", "b": 1.10}'),
    "map": (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), '[["k", 1]]'),
}


@pytest.mark.parametrize("name", ARROW)
def test_a_column_of_any_type_is_text_or_refused(home: Home, tmp_path: Path, name: str) -> None:
    values, _ = ARROW[name]
    out = io.BytesIO()
    pq.write_table(pa.table({"text": values}), out)
    path = write(tmp_path / "a.parquet", out.getvalue())
    if ARROW[name][1] is None:
        assert stored(home, path) == {"text": "Zürich\n"}
    else:
        refused(home, path, "column 'text' holds .*, expected text")


def test_columns_of_one_name_are_refused_by_it_and_others_are_read(home: Home, tmp_path: Path) -> None:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 3, names=["id", "text", "id"]), out)
    path = write(tmp_path / "a.parquet", out.getvalue())
    assert stored(home, path) == {"text": "a\n"}
    refused(Home(tmp_path / "other"), path, "has 2 columns 'id'; rename all but one", column="id")


@pytest.mark.parametrize(
    "number", ["7" * 5_000, "-" + "7" * 5_000, "1" * 400 + ".5", "1e400", "-1E-400", "1.10", "NaN"]
)
def test_numbers_of_any_size_are_read_past_and_keep_their_digits(home: Home, tmp_path: Path, number: str) -> None:
    line = f'{{"text": "one", "n": {number}, "deep": [{{"n": {number}}}]}}'
    assert stored(home, write(tmp_path / "a.jsonl", line.encode())) == {"text": "one\n"}
    row = parse_json(line)
    assert cell_text(row["n"], "here") == number
    assert cell_text(row["deep"], "here") == f'[{{"n": {number}}}]'


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, None),
        ("a", "a"),
        (True, "true"),
        (math.inf, "inf"),
        (["ü", None, {}], '["ü", null, {}]'),
        ({"a": (1, 2.5)}, '{"a": [1, 2.5]}'),
    ],
)
def test_a_cell_as_text(cell: Any, text: str | None) -> None:
    assert cell_text(cell, "here") == text


@pytest.mark.long
def test_a_value_of_no_known_type_is_refused() -> None:
    with pytest.raises(TableError, match="here: holds object, which is not read"):
        cell_text([object()], "here")
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TableError, match="too deep"):
        cell_text(deep, "here")
    while deep:  # The list is freed level by level, because freeing it at once would exceed the recursion limit.
        deep = deep[0]
