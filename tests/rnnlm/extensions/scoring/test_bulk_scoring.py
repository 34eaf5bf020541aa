"""Interrupted scoring resumes, writes the same bytes as without an interruption, and repeats no finished work."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.errors import ConfigError, HomeError, ModelError
from rnnlm.extensions.scoring import bulk_scoring
from rnnlm.extensions.scoring.score_output import read_provenance
from rnnlm.storage.home import Home
from rnnlm.storage.result_records import EvaluationRecord
from tests.rnnlm.extensions.scoring.conftest import LINES, Configure, Score

KILLED_SCRIPT = """
import os, signal, sys
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.home import Home
from rnnlm.extensions.scoring import bulk_scoring
from pathlib import Path

write, written = bulk_scoring.write_shard, []

def die_at_the_third(path, table):
    if len(written) == 2:
        (path.parent / f".{path.name}.half").write_bytes(b"half a shard")
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(path)
    write(path, table)

bulk_scoring.write_shard = die_at_the_third
bulk_scoring.score_texts(Home(Path(sys.argv[1])), ScoringConfig.model_validate_json(sys.argv[2]))
"""


class Killed(BaseException):
    """An exception that no code of rnnlm catches."""


def dying(function: Callable[..., Any], calls: int, *, after: bool) -> Callable[..., Any]:
    """Return a function that raises Killed in its call number `calls`, before or after it calls `function`."""
    made = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made == calls and not after:
            raise Killed
        result = function(*arguments, **named)
        if made == calls:
            raise Killed
        return result

    return call


@pytest.mark.parametrize(
    ("function", "calls", "after"),
    [
        ("write_shard", 1, False),
        ("write_shard", 2, True),
        ("write_shard", 4, True),
        ("write_output", 1, False),
        ("write_output", 1, True),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
def test_a_killed_scoring_ends_with_the_same_output(
    home: Home,
    configure: Configure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    calls: int,
    after: bool,
    ending: str,
) -> None:
    whole, broken = (configure(output=str(tmp_path / f"{name}.{ending}")) for name in ("whole", "broken"))
    bulk_scoring.score_texts(Home(tmp_path / "other"), whole)
    with monkeypatch.context() as patched:
        patched.setattr(bulk_scoring, function, dying(getattr(bulk_scoring, function), calls, after=after))
        with pytest.raises(Killed):
            bulk_scoring.score_texts(home, broken)
    there = {path.name for path in home.scores.glob("*/shards/*/0*.parquet")}
    assert len(there) == (4 if function == "write_output" else calls - (not after))
    written = shards_written(monkeypatch)
    bulk_scoring.score_texts(home, broken)
    assert there.isdisjoint(written)  # The second call has not scored finished shards again.
    if ending == "parquet":
        assert Path(broken.output).read_bytes() == Path(whole.output).read_bytes()
    else:
        assert rows_of(Path(broken.output)) == rows_of(Path(whole.output))
    assert not list(home.scores.glob("*/shards/*"))
    assert {path.name for path in tmp_path.glob(f"*.{ending}*")} == {f"whole.{ending}", f"broken.{ending}"}


def shards_written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each shard is added when the shard is written."""
    names: list[str] = []
    write = bulk_scoring.write_shard
    monkeypatch.setattr(bulk_scoring, "write_shard", lambda path, table: (names.append(path.name), write(path, table)))
    return names


def rows_of(database: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute("select * from scores order by document").fetchall()


@pytest.mark.slow  # The test is slow, because a new process imports everything again.
def test_what_a_killed_process_has_done_is_not_done_again(
    home: Home, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = (configure(output=str(tmp_path / f"{name}.parquet")) for name in ("whole", "broken"))
    environment = os.environ | {"PYTHONPATH": str(Path(bulk_scoring.__file__).parents[3])}
    command = [sys.executable, "-c", KILLED_SCRIPT, str(home.root), broken.model_dump_json()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(home.scores.glob("*/shards/*/0*.parquet"))) == 2
    assert len(list(home.scores.glob("*/shards/*/.*half"))) == 1
    assert not Path(broken.output).exists()

    scored = shards_written(monkeypatch)
    bulk_scoring.score_texts(home, broken)
    assert scored == ["00000002.parquet", "00000003.parquet"]
    bulk_scoring.score_texts(Home(tmp_path / "other"), whole)
    assert Path(broken.output).read_bytes() == Path(whole.output).read_bytes()


def test_the_same_scoring_is_done_once(score: Score, texts: Path) -> None:
    first = score()
    assert first.output is not None
    before = first.output.read_bytes()
    again = score()
    assert (first.skipped, again.skipped) == (False, True)
    assert again.totals == first.totals
    assert not score(force=True).skipped
    assert first.output.read_bytes() == before
    # With another number of surprising tokens, the texts are scored again.
    assert not score(surprising_tokens=1).skipped
    with texts.open("a") as stream:
        stream.write("the cat .\n")
    longer = score()
    assert not longer.skipped
    assert longer.totals.documents == len(LINES) + 1


def test_the_totals_are_those_of_all_documents_together(score: Score) -> None:
    found = score()
    assert found.output is not None
    rows = pq.read_table(found.output).to_pylist()
    assert [row["text"] for row in rows] == LINES
    assert found.totals.documents == len(LINES)
    assert found.totals.tokens == sum(row["tokens"] for row in rows)
    assert found.totals.bytes == sum(len(line) + 1 for line in LINES)
    assert found.totals.log_probability == pytest.approx(sum(row["log_probability"] for row in rows))
    bits = sum(row["bits_per_byte"] * row["bytes"] for row in rows if row["tokens"])
    assert found.totals.bits_per_byte == pytest.approx(bits / found.totals.bytes)
    assert found.totals.unknown_rate == pytest.approx(1 / found.totals.tokens)


def test_a_split_scores_what_its_evaluation_says(score: Score, home: Home, toy_evaluation: EvaluationRecord) -> None:
    (valid,) = home.corpora.glob("*/valid.txt")
    totals = score(input=str(valid)).totals
    expected = toy_evaluation.scores["valid"]
    assert totals.tokens == expected.tokens
    assert totals.perplexity == pytest.approx(expected.perplexity, rel=1e-5)
    assert totals.bits_per_byte == pytest.approx(expected.bits_per_byte, rel=1e-5)


def test_a_database_gets_the_same_rows_and_keeps_its_other_tables(score: Score, tmp_path: Path) -> None:
    database = tmp_path / "scores.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute("create table mine as select 42 as answer")
    parquet = score().output
    record = score(output=str(database))
    assert parquet is not None
    assert [list(row) for row in rows_of(database)] == [
        list(row.values()) for row in pq.read_table(parquet).to_pylist()
    ]
    with duckdb.connect(str(database), read_only=True) as connection:
        assert connection.execute("select answer from mine").fetchall() == [(42,)]
    assert score(output=str(database)).skipped
    assert (read_provenance(database) or {})["model_digest"] == record.model_digest


def test_an_output_that_cannot_be_written_is_told_before_anything_is_scored(score: Score, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match=r"scoring\.output"):
        score(output=str(tmp_path / "file" / "scores.parquet"))


def test_an_input_is_never_overwritten(score: Score, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"text": ["the cat ."]}), path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="one of the inputs"):
        score(input=str(path), output=str(path))
    assert path.read_bytes() == before


def test_a_database_that_is_none_is_told(score: Score, tmp_path: Path) -> None:
    (tmp_path / "bad.duckdb").write_text("no database" * 1000)
    with pytest.raises(HomeError, match=r"bad\.duckdb"):
        score(output=str(tmp_path / "bad.duckdb"))


def test_without_a_champion_the_model_has_to_be_named(score: Score, tracked_home: Home) -> None:
    with pytest.raises(ModelError, match="no registered model has a champion"):
        score(model=None)


def test_folders_whose_names_look_like_patterns_hold_inputs_outputs_and_the_home(
    configure: Configure, tmp_path: Path
) -> None:
    folder = tmp_path / "x[1]"
    folder.mkdir()
    (folder / "texts.txt").write_text("\n".join(LINES) + "\n")
    plain = bulk_scoring.score_texts(Home(tmp_path / "plain"), configure())
    for ending in ("parquet", "duckdb"):
        config = configure(input=str(folder / "texts.txt"), output=str(folder / f"scores.{ending}"))
        scored = bulk_scoring.score_texts(Home(folder / "home"), config)
        assert scored.totals == plain.totals


def make_table(path: Path, name: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"create table {name} as select i as id, 'the cat .' as text from range(3) t(i)")


def test_a_table_of_somebody_else_is_not_replaced(home: Home, configure: Configure, tmp_path: Path) -> None:
    make_table(tmp_path / "out.duckdb", "scores")
    with pytest.raises(ConfigError, match="table named scores that rnnlm score did not make"):
        bulk_scoring.score_texts(home, configure(output=str(tmp_path / "out.duckdb"), force=True))
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        assert connection.execute("select count(*) from scores where text = 'the cat .'").fetchone() == (3,)
    make_table(tmp_path / "other.duckdb", "mine")
    bulk_scoring.score_texts(home, configure(output=str(tmp_path / "other.duckdb")))
    assert len(rows_of(tmp_path / "other.duckdb")) == len(LINES)


def test_the_query_s_own_table_is_not_replaced(home: Home, configure: Configure, tmp_path: Path) -> None:
    path = tmp_path / "both.duckdb"
    bulk_scoring.score_texts(home, configure(output=str(path)))
    before = rows_of(path)
    config = configure(input=str(path), output=str(path), query="select text from scores order by document")
    with pytest.raises(ConfigError, match="the query reads the table scores"):
        bulk_scoring.score_texts(home, config)
    assert rows_of(path) == before


def test_rows_in_a_write_ahead_log_count_as_a_change(home: Home, configure: Configure, tmp_path: Path) -> None:
    path = tmp_path / "in.duckdb"
    make_table(path, "docs")
    config = configure(input=str(path), query="select text from docs order by id")
    assert bulk_scoring.score_texts(home, config).totals.documents == 3
    script = (
        "import duckdb, os, sys\n"
        "connection = duckdb.connect(sys.argv[1])\n"
        "connection.execute(\"insert into docs values (3, 'the dog .')\")\n"
        "os._exit(0)"  # The process exits without close(), so that the row stays in the write-ahead log.
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=120)
    assert Path(f"{path}.wal").stat().st_size > 0
    again = bulk_scoring.score_texts(home, config)
    assert (again.skipped, again.totals.documents) == (False, 4)


def test_the_next_scoring_removes_what_a_killed_one_left(home: Home, configure: Configure, tmp_path: Path) -> None:
    left = [tmp_path / ".scores.parquet.0a1b2c3d", tmp_path / ".scores.parquet.spilled"]
    left[0].write_bytes(b"half")
    left[1].mkdir()
    bulk_scoring.score_texts(home, configure())
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize(
    ("name", "message"),
    [("s" * 250 + ".parquet", "255 bytes"), ("a\\b[1].parquet", "backslash"), ("a\\b.duckdb", "backslash")],
)
def test_a_name_that_cannot_be_written_or_read_is_refused_before_scoring(
    configure: Configure, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr(bulk_scoring, "make_output", pytest.fail)
    with pytest.raises(HomeError, match=message):
        bulk_scoring.score_texts(home, configure(output=str(tmp_path / name)))


def test_an_output_below_a_folder_with_a_backslash_is_written_and_read(score: Score, tmp_path: Path) -> None:
    scored = score(output=str(tmp_path / "back\\slash" / "s.parquet"))
    assert scored.totals.documents == len(LINES)
