"""`rnnlm runs` lists training runs, and `rnnlm runs compare` compares some of them."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.storage.stage_folders import RunFolder


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.fixture
def other_run(home: Home, toy_run: RunRecord) -> Path:
    """Return an unfinished copy of the toy run whose configuration differs in one setting."""
    folder = home.runs / "0123456789abcdef"
    shutil.copytree(toy_run.folder, folder)
    config = read_json(folder / "config.json")
    config["training"]["batch_size"] = 5
    write_json(folder / "config.json", config)
    (folder / "COMPLETE").unlink()
    return folder


def test_runs_are_listed_with_state_and_scores(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, other_run: Path
) -> None:
    lines = said(capsys, "runs").splitlines()
    assert lines[0].split() == ["run", "corpus", "model", "state", "test", "test", "started"]
    assert lines[1].split() == ["bits/byte", "perplexity"]
    by_run = {line.split()[0]: line for line in lines[2:]}
    assert "finished" in by_run[toy_run.run_id[:10]]
    assert "step " in by_run[other_run.name[:10]]
    assert max(map(len, lines)) <= 80
    (value,) = (run for run in json.loads(said(capsys, "runs", "--json")) if run["run_id"] == toy_run.run_id)
    assert value["validation_perplexity"] == pytest.approx(toy_run.best_validation_perplexity, rel=0.2)


@pytest.mark.parametrize("file_times", [(1.9e9, 2e9), (2e9, 1.9e9), (1e8, 2e8), (2e8, 1e8)])
@pytest.mark.parametrize("recorded", ["start", "measurements", "first start alone"])
def test_runs_keep_their_order_in_a_copied_home(
    capsys: pytest.CaptureFixture[str],
    toy_run: RunRecord,
    other_run: Path,
    file_times: tuple[float, float],
    recorded: str,
) -> None:
    """Runs are listed by the recorded time of their start, or else of their first measurement.

    Copying or restoring an rnnlm home changes the times of the runs' files.
    """
    folders = (toy_run.folder, other_run)
    for folder, start in zip(folders, (1_100_000_000, 1_000_000_000), strict=True):
        started = read_json(folder / "started.json")
        if recorded == "measurements":  # Runs of earlier releases have no recorded start time.
            del started["time_of_start"]
        else:
            started["time_of_start"] = datetime.fromtimestamp(start, UTC).isoformat(timespec="seconds")
        write_json(folder / "started.json", started)
        lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        # The first measurement of a slow run may be later than that of a run which was started after it.
        delay = 10**12 if recorded == "start" and folder == other_run else 0
        measured = [json.dumps(line | {"time_milliseconds": start * 1_000 + delay}) + "\n" for line in lines]
        (folder / "history.jsonl").write_text("" if recorded == "first start alone" else "".join(measured))
    for folder, time in zip(folders, file_times, strict=True):
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (time, time))
    runs = json.loads(said(capsys, "runs", "--json"))
    assert [run["run_id"] for run in runs] == [toy_run.run_id, other_run.name]
    assert runs[1]["started"] == "2001-09-09T01:46:40+00:00"


def test_a_resumed_run_keeps_the_time_of_its_first_start(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write_json(run.started_path, {"run_id": "a", "time_of_start": "2001-09-09T01:46:40+00:00"})
    run.write_started({"run_id": "a", "dataset_id": "b"})
    assert run.started == {"run_id": "a", "dataset_id": "b", "time_of_start": "2001-09-09T01:46:40+00:00"}


def test_changes_are_a_log_of_attempts_with_the_best_first(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, other_run: Path
) -> None:
    (other_run / "history.jsonl").unlink()  # Without a history, the time of the run's first measurement is unknown.
    lines = said(capsys, "runs", "--changes").splitlines()
    places = [
        next(n for n, line in enumerate(lines) if line.startswith(run[:10])) for run in (toy_run.run_id, other_run.name)
    ]
    assert places[0] < places[1]
    first, second = " ".join(lines[places[0] + 1 : places[1]]).split(), " ".join(lines[places[1] + 1 :]).split()
    assert first[0] == "default"
    assert set(second) - set(first) == {"training.batch_size=5"}
    assert "corpus.source" not in " ".join(first)
    assert max(map(len, lines)) <= 80


@pytest.mark.long
def test_runs_are_compared_by_the_settings_that_differ(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, other_run: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "plots" / "curves.png"
    arguments = ["runs", "compare", toy_run.run_id, other_run.name[:6], "--picture", str(picture)]
    text = said(capsys, *arguments)
    settings = [line.split() for line in text.splitlines() if line.startswith(("training.", "model.", "corpus."))]
    (setting,) = settings
    assert setting[0] == "training.batch_size"
    assert setting[2] == "5"
    assert picture.read_bytes().startswith(b"\x89PNG")
    value = json.loads(said(capsys, *arguments, "--json"))
    assert set(value["differences"]) == {"training.batch_size"}


@pytest.mark.parametrize("name", ["run.json", "config.json", "history.jsonl", "started.json", "evaluation.json"])
def test_a_flipped_record_is_not_shown_as_measured(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, toy_evaluation: EvaluationRecord, name: str
) -> None:
    """A run is not shown as measured if a stored record does not match its digest.

    An evaluation contains its own digest. The digests of other records are in the run's marker.
    """
    data = bytearray((toy_run.folder / name).read_bytes())
    place = max(place for place, byte in enumerate(data) if chr(byte).isdigit())
    data[place] ^= 1
    (toy_run.folder / name).write_bytes(data)
    assert main(["runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    if name == "evaluation.json":
        assert run["test_perplexity"] is None
        assert run["damage"] == ""
    else:
        assert run["damage"] == f"{name} differs from its sha256"
        assert main(["runs"]) == 0
        assert "damaged" in capsys.readouterr().out
