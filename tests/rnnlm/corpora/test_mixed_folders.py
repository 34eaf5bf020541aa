"""Folders as people have them: logs, mail, programs, a package.json and a word-processor document among the texts."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.home import Home
from tests.rnnlm.corpora.packing import zip_of


def test_logs_mail_and_programs_of_a_folder_are_read(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in ("a.txt", "app.log", "train.py", "test.py", "main.rs", "old.mbox"):
        (folder / name).write_text(f"text of {name} .\n")
    corpus = obtain_corpus(home, CorpusConfig(source=str(folder)))
    assert set(corpus.files) == {"text"}  # train.py and test.py are no splits
    text = (corpus.folder / corpus.files["text"]).read_text()
    for path in folder.iterdir():
        assert f"text of {path.name} ." in text


def test_what_is_no_table_is_left_out_with_its_reason(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.txt").write_text("a text .\n")
    (folder / "rows.jsonl").write_text('{"text": "a row ."}\n')
    (folder / "package.json").write_text('{\n  "name": "x"\n}\n')
    corpus = obtain_corpus(home, CorpusConfig(source=str(folder)))
    assert (corpus.folder / corpus.files["text"]).read_text() == "a text .\na row .\n"
    (left_out,) = corpus.left_out
    assert left_out.name.endswith("package.json")
    assert "line 1 is not JSON" in left_out.reason
    with pytest.raises(CorpusError, match="line 1 is not JSON"):
        obtain_corpus(home, CorpusConfig(source=str(folder / "package.json")))


def test_a_document_of_a_word_processor_is_not_opened_as_a_zip(home: Home, tmp_path: Path) -> None:
    (tmp_path / "letter.docx").write_bytes(zip_of({"word/document.xml": b"<x/>", "a.txt": b"inner\n"}))
    with pytest.raises(CorpusError, match="save it as"):
        obtain_corpus(home, CorpusConfig(source=str(tmp_path / "letter.docx")))
    (tmp_path / "a.txt").write_text("a text .\n")
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "*")))
    assert (corpus.folder / corpus.files["text"]).read_text() == "a text .\n"


def test_a_column_may_lie_within_an_object(home: Home, tmp_path: Path) -> None:
    rows = [{"data": {"body": "first ."}}, {"data": {"body": None}}, {"data.body": "flat ."}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.jsonl"), column="data.body"))
    assert (corpus.folder / corpus.files["text"]).read_text() == "first .\nflat .\n"
    nested = [{"data": {"body": "first .", "n": 1}}, {"data": None}, {"data": {"body": "third .", "n": 2}}]
    pq.write_table(pa.Table.from_pylist(nested), tmp_path / "a.parquet")
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.parquet"), column="data.body"))
    assert (corpus.folder / corpus.files["text"]).read_text() == "first .\nthird .\n"
    for wrong in ("data.nobody", "data.body.text", "nothing.body"):
        with pytest.raises(CorpusError, match=f"no column '{wrong}'; it has: data"):
            obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.parquet"), column=wrong))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("rows.json", '{"text": "a row ."}\n{"text": "cut', "line 2 is not JSON"),
        ("rows.jsonl", '{"text": "a row ."}\n{"text": 3}\n', "column 'text' holds int"),
        ("rows.jsonl", '{"text": "a row ."}\n{"body": "x"}\n', "line 2: has no column 'text'"),
        ("rows.csv", "id,text\n1,a row .\n2\n", "row 3 has 1 cells"),
        ("rows.csv", 'text\na row .\n"open\n', "line 3 is not csv"),
    ],
)
def test_a_table_that_breaks_after_its_first_row_is_read_until_there(
    home: Home, tmp_path: Path, name: str, data: str, reason: str
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.txt").write_text("a text .\n")
    (folder / name).write_text(data)
    corpus = obtain_corpus(home, CorpusConfig(source=str(folder)))
    assert (corpus.folder / corpus.files["text"]).read_text() == "a text .\na row .\n"
    (noted,) = corpus.left_out
    assert noted.read
    assert reason in noted.reason
    assert noted.reason.endswith("; what stands before it was read")
    with pytest.raises(CorpusError, match=re.escape(reason)):
        obtain_corpus(home, CorpusConfig(source=str(folder / name)))
