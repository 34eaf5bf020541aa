"""A folder of texts can be read even if it also contains logs, mail, programs, a package.json and a docx document."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.packed_files import zip_of
from tests.rnnlm.corpora.test_file_formats import obtain, refused, stored, write


def test_a_word_processor_document_is_not_opened_as_a_zip(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "letter.odt", zip_of({"word/document.xml": b"<x/>", "a.txt": b"inner\n"}))
    refused(home, path, "save it as")
    write(tmp_path / "a.txt", b"a text .\n")
    assert stored(home, tmp_path / "*") == {"text": "a text .\n"}


def test_a_column_may_lie_within_an_object(home: Home, tmp_path: Path) -> None:
    rows = [{"data": {"body": "first ."}}, {"data": {"body": None}}, {"data.body": "flat ."}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    assert stored(home, path, column="data.body") == {"text": "first .\nflat .\n"}
    nested = [{"data": {"body": "first .", "n": 1}}, {"data": None}, {"data": {"body": "third .", "n": 2}}]
    pq.write_table(pa.Table.from_pylist(nested), tmp_path / "a.parquet")
    assert stored(home, tmp_path / "a.parquet", column="data.body") == {"text": "first .\nthird .\n"}
    for wrong in ("data.nobody", "data.body.text", "nothing.body"):
        with pytest.raises(CorpusError, match=f"no column '{wrong}'; it has: data"):
            obtain(home, tmp_path / "a.parquet", column=wrong)


@pytest.mark.parametrize(
    ("name", "data", "reason", "rows"),
    [
        ("package.json", '{\n  "name": "x"\n}\n', "line 1: has no column 'text'", ""),
        ("rows.json", '{"text": "a row ."}\n{"text": "cut', "line 2 is not JSON", "a row .\n"),
        ("rows.jsonl", '{"text": "a row ."}\n{"text": 3}\n', "column 'text' holds a number", "a row .\n"),
        ("rows.jsonl", '{"text": "a row ."}\n{"body": "x"}\n', "line 2: has no column 'text'", "a row .\n"),
        ("rows.csv", "id,text\n1,a row .\n2\n", "row 3 has 1 cells", "a row .\n"),
        ("rows.csv", 'text\na row .\n"open\n', "line 3 is not csv", "a row .\n"),
    ],
)
def test_a_broken_table_among_texts_is_read_up_to_its_error(
    home: Home, tmp_path: Path, name: str, data: str, reason: str, rows: str
) -> None:
    refused(home, write(tmp_path / "mixed" / name, data.encode()), re.escape(reason))
    write(tmp_path / "mixed" / "a.txt", b"a text .\n")
    corpus = obtain(home, tmp_path / "mixed")
    assert (corpus.folder / corpus.files["text"]).read_text() == "a text .\n" + rows
    (noted,) = corpus.left_out
    assert (noted.name, noted.read) == (name, bool(rows))
    assert reason in noted.reason
    assert noted.reason.endswith("; the text before it was read") == bool(rows)
