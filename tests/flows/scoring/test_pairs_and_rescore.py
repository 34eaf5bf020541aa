"""`rnnlm pairs` prints accuracies with intervals, and `rnnlm rescore` one text per n-best list."""

import json
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.storage.records import RunRecord

pytestmark = pytest.mark.usefixtures("home")
GOOD, BAD = "the cat sees the dog near the river .", "cat the sees the dog the near river ."


def test_pairs_prints_accuracy_with_its_interval(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    (tmp_path / "pairs.csv").write_text(f"right,wrong,topic\n{GOOD},{BAD},order\n{BAD},{GOOD},reversed\n")
    columns = ["--good", "right", "--bad", "wrong", "--group", "topic"]
    assert main(["pairs", str(tmp_path / "pairs.csv"), toy_run.run_id, *columns]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["order", "1", "100.0%", "20.7%", "to", "100.0%", "0.0%"] in lines
    assert ["all", "2", "50.0%", "9.5%", "to", "90.5%", "0.0%"] in lines
    assert main(["pairs", str(tmp_path / "pairs.csv"), toy_run.run_id, *columns, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["accuracy"] == 0.5
    assert main(["pairs", str(tmp_path / "pairs.csv"), toy_run.run_id]) == 2
    assert "--good" in capsys.readouterr().err


def test_rescore_prints_one_text_per_list(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    (tmp_path / "nbest.csv").write_text(f"id,text,score\nutt1,{BAD},-1\nutt1,{GOOD},-2\nutt2,the dog .,-1\n")
    arguments = ["rescore", str(tmp_path / "nbest.csv"), "--weight", "1", "--model", toy_run.run_id]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"utt1\t{GOOD}\nutt2\tthe dog .\n"
    assert main([*arguments, "--json"]) == 0
    assert [row["first"] for row in json.loads(capsys.readouterr().out)] == [BAD, "the dog ."]
