"""A query is one SELECT statement over its own database. It cannot use other files, the network or settings."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rnnlm.errors import CorpusError
from tests.rnnlm.extensions.scoring.test_document_reader import read

HIDDEN = "not for queries"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(HIDDEN)
    with duckdb.connect(str(tmp_path / "in.duckdb")) as connection:
        connection.execute("create table docs as select i as id, 'text ' || i as text from range(3) t(i)")
    return tmp_path / "in.duckdb"


@pytest.mark.parametrize(
    "query",
    [
        "select content as text from read_text('{folder}/secret.txt')",
        "select * from read_csv('{folder}/secret.txt')",
        "select * from '{folder}/secret.txt'",
        "select file as text from glob('/etc/*')",
        "copy docs to '{folder}/out.csv'",
        "copy (select 1) to '{folder}/out.csv'; select text from docs",
        "select text from docs; copy docs to '{folder}/out.csv'",
        "attach '{folder}/out.duckdb'",
        "select * from read_parquet('http://127.0.0.1:9/a.parquet')",
        "install httpfs",
        "set enable_external_access = true",
        "pragma database_list",
        "export database '{folder}/out'",
        "select HIDDEN as text",
        "select text from READING",
        "",
    ],
)
def test_a_query_reaches_nothing_but_its_database(database: Path, query: str) -> None:
    before = sorted(path.name for path in database.parent.iterdir())
    with pytest.raises(CorpusError) as caught:
        read(database, query=query.format(folder=database.parent) or " ")
    assert HIDDEN not in str(caught.value)
    assert sorted(path.name for path in database.parent.iterdir()) == before


@pytest.mark.parametrize(
    "query",
    [
        "select text from docs order by id",
        "with found as (select * from docs) select text from found order by id",
        "from docs order by id",
        "select text from docs order by id;",
    ],
)
def test_one_select_is_answered(database: Path, query: str) -> None:
    assert [document.text for document in read(database, query=query)] == ["text 0", "text 1", "text 2"]


@pytest.mark.parametrize("name", ["a[1].csv", "a[1].jsonl", "a*.csv", "a[1].txt"])
def test_a_file_s_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    def write(file_name: str, text: str) -> None:
        content: dict[str, Any] = {".csv": f"text\n{text}\n", ".jsonl": f'{{"text": "{text}"}}\n', ".txt": f"{text}\n"}
        (tmp_path / file_name).write_text(content[Path(file_name).suffix])

    write(name, "right")
    write(f"a1{Path(name).suffix}", "wrong")
    assert [(document.text or "").strip() for document in read(tmp_path / name)] == ["right"]
