"""Documents of every kind of file are read unchanged and in order. Problems with a file are reported."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from rnnlm.corpora.splits import paragraphs
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring import document_reader
from rnnlm.extensions.scoring.document_reader import InputDocument, in_shards, read_documents
from rnnlm.extensions.scoring.input_files import find_inputs
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from tests.rnnlm.corpora.test_table_cells import ARROW

TEXTS = ["the cat", "two\nlines, of “text”", "", 'a "quoted", word']
IDS = ["7", "b", "c", "d"]


def read(path: Path, **fields: Any) -> list[InputDocument]:
    config = ScoringConfig.model_validate({"input": str(path), "output": "x.parquet"} | fields)
    return list(read_documents(find_inputs(config).files, config))


def write_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, dialect="excel-tab" if path.suffix == ".tsv" else "excel")
        rows.writerows([("id", "body"), *zip(IDS, TEXTS, strict=True)])


def write_json(path: Path) -> None:
    lines = [json.dumps({"id": id_, "body": text}) for id_, text in zip(IDS, TEXTS, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"body": TEXTS, "id": IDS}), path)


def write_database(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table docs (id varchar, body varchar)")
        connection.executemany("insert into docs values (?, ?)", list(zip(IDS, TEXTS, strict=True)))


EVERY_TABLE = pytest.mark.parametrize(
    ("name", "write"),
    [
        ("texts.csv", write_csv),
        ("texts.tsv", write_csv),
        ("texts.jsonl", write_json),
        ("texts.parquet", write_parquet),
        ("texts.duckdb", write_database),
    ],
)


@EVERY_TABLE
def test_every_table_gives_its_texts_and_ids_in_order(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    write(tmp_path / name)
    query = {"query": "select body, id from docs order by id"} if name.endswith("duckdb") else {}
    found = read(tmp_path / name, column="body", id_column="id", **query)
    assert [(document.id, document.text or "") for document in found] == list(zip(IDS, TEXTS, strict=True))
    assert [(document.number, document.place) for document in found] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert {document.source for document in found} == {str(tmp_path / name)}
    assert [document.id for document in read(tmp_path / name, column="body", **query)] == [None] * 4


def test_a_paragraph_is_a_document_of_the_corpus(tmp_path: Path) -> None:
    data = b"one\ntwo\n\n\nthree\n" + b"four\n" * 60
    (tmp_path / "a.txt").write_bytes(data)
    texts = [document.text for document in read(tmp_path / "a.txt", document="paragraph")]
    assert texts == [part.decode() for part in paragraphs(data.splitlines(keepends=True))]
    assert len(texts) > 2  # A blank line ends the first paragraph. The rest is longer than 50 lines, so it is divided.


def test_the_strangest_line_is_read_and_marked_and_the_next_ones_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\na\x00b\nbad \xff byte\n\x00\x00\nlast\n")
    texts = [document.text.rstrip("\n") for document in read(tmp_path / "a.txt") if document.text is not None]
    assert texts == ["one", "a\ufffdb", "bad \ufffd byte", "\ufffd\ufffd", "last"]


@EVERY_TABLE
def test_a_nul_in_a_cell_does_not_stop_reading(
    tmp_path: Path, name: str, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "TEXTS", ["one", "a\x00b", "\x00", "last"])
    write(tmp_path / name)
    query = {"query": "select body from docs order by id"} if name.endswith("duckdb") else {}
    found = read(tmp_path / name, column="body", **query)
    assert [document.text for document in found] == ["one", "a\ufffdb", "\ufffd", "last"]


BAD_BYTE = b"bad \xff byte"
BAD_ROWS = {  # Each row has a cell that is not text, for a different reason.
    "a.csv": b'text\none\n"a\x00b"\n' + BAD_BYTE + b"\nlast\n",
    "a.tsv": b"text\none\na\x00b\n" + BAD_BYTE + b"\nlast\n",
    "a.jsonl": b'{"text": "one"}\n{"text": "a\x00b"}\n{"text": "' + BAD_BYTE + b'"}\n{"text": "last"}\n',
    "escaped.jsonl": b'{"text": "one"}\n{"text": "a\\u0000b"}\n{"text": "bad \\ud800 byte"}\n{"text": "last"}\n',
}


@pytest.mark.parametrize("name", [*BAD_ROWS, "a.parquet"])
@pytest.mark.parametrize("compressed", [False, True])
def test_the_strangest_cell_is_read_and_marked_and_the_next_ones_too(
    tmp_path: Path, name: str, compressed: bool
) -> None:
    path = tmp_path / name
    if name in BAD_ROWS:
        path.write_bytes(BAD_ROWS[name])
    else:
        cells = pa.array([b"one", b"a\x00b", BAD_BYTE, b"last"], pa.binary())
        # Arrow accepts these bytes, although they are not UTF-8.
        text = pa.StringArray.from_buffers(4, *cells.buffers()[1:], null_count=0, offset=0)
        pq.write_table(pa.table({"text": text}), path)
    if compressed:
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert [document.text for document in read(path)] == ["one", "a\ufffdb", "bad \ufffd byte", "last"]


@pytest.mark.parametrize("name", [name for name in ARROW if ARROW[name][1]])
def test_a_column_of_any_type_is_scored_as_it_is_spelled(tmp_path: Path, name: str) -> None:
    values, text = ARROW[name]
    pq.write_table(pa.table({"text": values}), tmp_path / "a.parquet")
    assert [document.text for document in read(tmp_path / "a.parquet")] == [text, None]


def test_a_column_within_objects_is_named_with_dots(tmp_path: Path) -> None:
    rows = [{"data": {"body": "one", "key": 1}}, {"data": {"body": "two", "key": 2}}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        found = read(tmp_path / name, column="data.body", id_column="data.key")
        assert [(document.id, document.text) for document in found] == [("1", "one"), ("2", "two")]
        with pytest.raises(CorpusError, match="no column 'data.head'"):
            read(tmp_path / name, column="data.head")


def test_an_object_without_the_column_is_a_document_without_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"other": 1}\n{"text": "a"}\n{"text": null}\n{"text": ["b", 2]}\n')
    assert [document.text for document in read(tmp_path / "a.jsonl")] == [None, "a", None, '["b", 2]']


@pytest.mark.parametrize(
    ("name", "content", "fields", "names"),
    [
        ("a.csv", b"id,body\n1,a\n", {}, ["a.csv", "'text'", "id, body", "--column"]),
        ("a.csv", b"text\na\n", {"id_column": "key"}, ["'key'", "--id-column"]),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', {}, ["a.jsonl", "jsonl"]),
        ("a.parquet", b"PAR1 nothing", {}, ["a.parquet", "parquet"]),
    ],
)
def test_what_cannot_be_read_is_told_in_three_lines(
    tmp_path: Path, name: str, content: bytes, fields: dict[str, str], names: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        read(tmp_path / name, **fields)
    assert len(str(caught.value).splitlines()) <= 3
    for part in names:
        assert part in str(caught.value)


def test_bytes_in_a_database_are_text(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("create table docs as select encode('Zürich') as body, 1.10::decimal(9, 2) as id")
    query = "select body, id from docs"
    (found,) = read(tmp_path / "a.duckdb", query=query, column="body", id_column="id")
    assert (found.id, found.text) == ("1.10", "Zürich")


@pytest.mark.parametrize(
    "query", ["select nothing from docs", "selct 1", "drop table docs", "insert into docs values ('e', 'f')"]
)
def test_a_query_that_is_no_select_is_refused_and_changes_nothing(tmp_path: Path, query: str) -> None:
    write_database(tmp_path / "a.duckdb")
    with pytest.raises(CorpusError, match="query"):
        read(tmp_path / "a.duckdb", query=query, column="body")
    assert len(read(tmp_path / "a.duckdb", query="select * from docs", column="body")) == 4


def test_a_database_and_a_query_are_given_together() -> None:
    for fields in ({"input": "a.duckdb"}, {"input": "a.txt", "query": "select 1"}):
        with pytest.raises(ValidationError, match="needs a query"):
            ScoringConfig.model_validate({"output": "x.parquet"} | fields)


def test_on_ray_scores_are_computed_on_the_cpu() -> None:
    """On Ray, scores are computed on the CPU, even if the machine that runs the command has a GPU."""
    on_ray = {"input": "x.txt", "output": "x.parquet", "engine": "ray"}
    assert ScoringConfig.model_validate(on_ray).device == "cpu"
    assert ScoringConfig.model_validate(on_ray | {"engine": "local"}).device == "auto"
    with pytest.raises(ValidationError, match="engine=local"):
        ScoringConfig.model_validate(on_ray | {"device": "cuda"})


def test_a_missing_input_is_an_error_unless_allowed(tmp_path: Path) -> None:
    for name in ("nothing.txt", "*.txt", "."):
        with pytest.raises(CorpusError):
            read(tmp_path / name)
        assert read(tmp_path / name, may_be_missing=True) == []
    (tmp_path / "README.pdf").write_bytes(b"%PDF-1.7")
    with pytest.raises(CorpusError):  # The PDF file exists, but PDF files cannot be scored.
        read(tmp_path, may_be_missing=True)


def test_a_shard_is_full_by_documents_or_by_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_reader, "SHARD_CHARACTERS", 10)
    config = ScoringConfig(input="-", output="x.parquet", shard_documents=3)
    lengths = [1, 1, 1, 4, 7, 20, 2]
    found = (InputDocument(number, "", number, None, "x" * length) for number, length in enumerate(lengths))
    assert [[len(text) for text in shard["text"].to_pylist()] for shard in in_shards(found, config)] == [
        [1, 1, 1],
        [4, 7],
        [20],
        [2],
    ]


def test_no_more_than_a_shard_is_read_ahead() -> None:
    config = ScoringConfig(input="-", output="x.parquet", shard_documents=4)
    read_so_far = 0

    def endless() -> Any:
        nonlocal read_so_far
        while True:
            read_so_far += 1
            yield InputDocument(read_so_far, "", read_so_far, None, "a")

    shards = in_shards(endless(), config)
    next(shards)
    next(shards)
    assert read_so_far == 8
