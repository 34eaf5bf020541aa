"""The dialect of a csv or tsv file is detected. Each row is also returned exactly as it is in the file."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlm.config import PipelineConfig
from rnnlm.corpora.csv_dialects import Dialect, measure_dialect
from rnnlm.corpora.inspection import inspect_source
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.test_file_formats import refused, stored, write

SENTENCES = 'id\ttext\n1\tThe bell rings.\n2\t"No, she said.\n3\tGo home"\n4\t\'Yes\' and ""no\n'
SPARK = 'id,text\n1,"He said \\"stop\\", then left."\n2,"plain, with comma"\n3,"C:\\\\dir\\\\"\n'
TWICE = 'id,text\n1,"say \\"\\", ok"\n2,"fine, thanks"\n'
JOINED = 'id,text\n1,a\n2,"No\n3,b\n4,c\n5,Go"\n6,d\n'
DIALECTS = {  # The content, the kind of file, the expected delimiter and quoting, and the expected texts.
    "single quotes": (
        SENTENCES,
        "tsv",
        "\tnone",
        ["The bell rings.", '"No, she said.', 'Go home"', "'Yes' and \"\"no"],
    ),
    "a cell in quotes": ('id\ttext\n1\t"Yes," I said.\n2\t"No."\n', "tsv", "\tnone", ['"Yes," I said.', '"No."']),
    "tsv without a quote": ("id\ttext\n1\ta\n", "tsv", "\tnone", ["a"]),
    "tsv of a spreadsheet": ('id\ttext\n1\t"a ""b"" c"\n2\t"x\ny"\n', "tsv", "\tdoubled", ['a "b" c', "x\ny"]),
    "quoted headings": ('"id"\t"text"\n"1"\t"a"\n', "tsv", "\tdoubled", ["a"]),
    "csv as Python writes it": ('id,text\n1,"a, ""b""\nc"\n', "csv", ",doubled", ['a, "b"\nc']),
    "csv with a path": ('id,path,text\n1,"C:\\",a\n2,"D:\\",b\n', "csv", ",doubled", ["a", "b"]),
    "csv of Spark": (SPARK, "csv", ",backslash", ['He said "stop", then left.', "plain, with comma", "C:\\dir\\"]),
    "backslashes side by side": (TWICE, "csv", ",backslash", ['say "", ok', "fine, thanks"]),
    "quotes that join rows": (JOINED, "csv", ",none", ["a", '"No', "b", "c", 'Go"', "d"]),
    "csv of a European Excel": ('id;text\n1;"a, b"\n2;c\n', "csv", ";doubled", ["a, b", "c"]),
    "a line for Excel": ('sep=;\nid;text\n1;"a, b"\n', "csv", ";doubled", ["a, b"]),
    "csv with a tab": ("id\ttext\n1\ta\n", "csv", "\tdoubled", ["a"]),
    "short and long rows": ('id,text,x\n1,a\n2,b,c,d\n3,"e, f",g\n', "csv", ",doubled", ["a", "b", "e, f"]),
    "a table of one column": ('text\n"a, b"\n', "csv", ",doubled", ["a, b"]),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_table_is_read_in_its_own_dialect(home: Home, tmp_path: Path, name: str) -> None:
    content, kind, expected, texts = DIALECTS[name]
    dialect = measure_dialect(content, kind)
    assert dialect.delimiter + dialect.quoting == expected
    lines = "".join(text + "\n" for text in texts)
    assert stored(home, write(tmp_path / f"a.{kind}", content.encode())) == {"text": lines}
    assert stored(home, write(tmp_path / f"b.{kind}", content.replace("\n", "\r\n").encode())) == {"text": lines}


def test_the_setting_wins_and_inspect_says_what_was_measured(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b'id\ttext\n1\t"one\n2\ttwo"\n')
    assert stored(home, path) == {"text": '"one\ntwo"\n'}
    assert stored(home, path, quoting="doubled") == {"text": "one\n2\ttwo\n"}
    (noted,) = inspect_source(PipelineConfig.model_validate({"corpus": {"source": str(path)}})).left_out
    assert noted.read
    assert noted.reason == "cells separated by tab, quotes as characters, by measurement; corpus.quoting sets it"


@pytest.mark.long
def test_a_row_of_several_lines_in_a_tsv_is_told(home: Home, tmp_path: Path) -> None:
    tail = '9\t"one\n10\ttwo"\n'  # These rows follow the beginning of the file, from which the dialect is detected.
    path = write(tmp_path / "a.tsv", ('id\ttext\n1\t"a ""b"""\n' + "2\tc\n" * 20_000 + tail).encode())
    assert stored(home, path)["text"].endswith("c\none\n10\ttwo\n")
    (noted,) = inspect_source(PipelineConfig.model_validate({"corpus": {"source": str(path)}})).left_out
    assert "around cells" in noted.reason
    assert "line 20003 begins a row of 2 lines" in noted.reason


def test_what_is_damaged_names_the_setting(home: Home, tmp_path: Path) -> None:
    damaged = b'id,text\n1,"a" b\n2,"c, d"\n'
    assert "set corpus.quoting" in refused(home, write(tmp_path / "a.csv", damaged), "line 2 is not csv")
    assert stored(home, tmp_path / "a.csv", quoting="none") == {"text": '"a" b\n"c\n'}


def test_a_column_that_occurs_twice_is_refused_by_its_name(home: Home, tmp_path: Path) -> None:
    refused(home, write(tmp_path / "a.csv", b"text,id,text\na,1,b\n"), "has 2 columns 'text'; rename all but one")


CELLS = st.lists(st.text(alphabet='ab "\\,;\n\r\té', max_size=5), min_size=1, max_size=4)


@pytest.mark.long
@given(
    rows=st.lists(CELLS, max_size=4),
    quoting=st.sampled_from(["doubled", "backslash"]),
    delimiter=st.sampled_from(",;\t"),
)
def test_cells_are_written_and_read_and_known_as_they_stand(
    rows: list[list[str]], quoting: str, delimiter: str
) -> None:
    dialect = Dialect(delimiter, quoting)  # type: ignore[arg-type]
    written = ["".join([delimiter.join(map(dialect.spelled, row)), "\r\n"]) for row in rows]
    records = list(dialect.records(io.StringIO("".join(written), newline="")))
    assert [record for record, _ in records] == written
    assert [cells or [""] for _, cells in records] == rows
    for record, _ in records:
        assert delimiter.join(dialect.cells_as_they_stand(record)) + "\r\n" == record
        assert len(dialect.cells_as_they_stand(record)) == len(rows[written.index(record)])
