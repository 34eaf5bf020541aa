"""`rnnlm score` prints the totals and the drift, or one JSON value. The command's errors have at most three lines."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.command_line import main
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.long
def test_it_prints_the_totals_and_the_drift_or_one_value(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, home: Home, tmp_path: Path, prefect_server: None
) -> None:
    (texts,) = home.corpora.glob("*/test.txt")
    output = tmp_path / "scores.parquet"
    arguments = ["score", "--input", str(texts), "--output", str(output), "--model", toy_run.run_id]
    assert main([*arguments, "--surprising", "2", "--no-text"]) == 0
    page = capsys.readouterr().out
    for part in (str(output), "40 documents", "bits/byte", "drift      none", "surprising_tokens=2", "50%"):
        assert part in page
    rows = pq.read_table(output).to_pylist()
    assert {len(row["surprising"]) for row in rows} == {2}
    assert {row["text"] for row in rows} == {None}

    assert main([*arguments, "--surprising", "2", "--no-text", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["scoring"]["skipped"] is True
    assert value["scoring"]["totals"]["documents"] == 40
    assert value["drift"]["drifted"] is False
    assert Path(value["drift"]["picture"]).is_file()
    assert value["strange"] == []

    assert main(["score", "--input", str(texts), "--model", toy_run.run_id, "--top", "3"]) == 0
    assert str(home.scores) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--input", "/no/such/texts.txt"], ["/no/such/texts.txt", "--input"]),
        (["--input", "/no/such/*.txt"], ["/no/such/*.txt"]),
        (["--input", "a.duckdb"], ["query"]),
        (["--input", "a.txt", "--output", "scores.csv"], ["--output", "scores.csv"]),
        (["--input", "a.txt", "--surprising", "-1"], ["--surprising", "-1"]),
        (["--input", "a.txt", "--drift-threshold", "2"], ["--drift-threshold"]),
        (["--input", "a.txt", "--top", "5", "--no-text"], ["--no-text"]),
        (["--input", __file__, "--model", "models:/nobody@champion"], ["nobody"]),
        (["--input", __file__], ["no registered model has a champion", "rnnlm run"]),
    ],
)
def test_a_wrong_call_is_told_in_three_lines(
    capsys: pytest.CaptureFixture[str], arguments: list[str], names: list[str]
) -> None:
    assert main(["score", "--output", "scores.parquet", *arguments]) == 2
    out, err = capsys.readouterr()
    told = err[err.index("rnnlm: ") :].strip().splitlines()
    assert out == ""
    assert len(told) <= 3
    for name in names:
        assert name in err
