"""schedule, trigger, status without a server: one plain line each, before anything slow is imported."""

import json
from pathlib import Path

import pytest

from flows.command_line import main
from flows.operations.schedules import absolute_source
from rnnlm.home import Home


@pytest.mark.parametrize(
    "command", [["schedules"], ["trigger", "mine"], ["unschedule", "mine"], ["deploy"], ["schedule", "--corpus", "zen"]]
)
def test_without_a_server_they_say_how_to_start_one(
    command: list[str], home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert main(command) == 2
    assert "no Prefect server: start one with rnnlm up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--cron", "often"], "--cron 'often': expected '0 2 * * *' for every day at 02:00"),
        (["--timezone", "Mars/Phobos"], "--timezone 'Mars/Phobos': expected Europe/Berlin"),
        (["--corpus", "missing.txt"], "missing.txt"),
        (["--set", "model.layers=0"], "model.layers: expected at least 1; got 0"),
    ],
)
def test_wrong_values_are_named(
    options: list[str], problem: str, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", "--corpus", "zen", *options]) == 2
    assert problem in capsys.readouterr().err


def test_paths_are_made_absolute_and_names_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_source("texts/a.txt") == str(tmp_path / "texts" / "a.txt")
    for source in ("python-docs", "hf:owner/name", "https://example.org/a.txt"):
        assert absolute_source(source) == source


def test_status_and_logs_of_an_unused_home(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert "not up: rnnlm up" in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"] == []
    assert main(["logs"]) == 0
    assert "no logs yet" in capsys.readouterr().out
    assert main(["logs", "worcer"]) == 2
    assert "expected one of up, prefect, mlflow, deploy, worker" in capsys.readouterr().err
