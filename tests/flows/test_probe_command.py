"""`rnnlm probe`, on a real Prefect server with a real MLflow store: what is printed, shown and logged."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.artifacts import Artifact

from flows.command_line import main
from rnnlm.home import Home
from tests.tasks.comparisons import PNG, artifacts, tracked

pytestmark = pytest.mark.usefixtures("home")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["probe", *arguments]) == 0
    return capsys.readouterr().out


def shown(key: str) -> str:
    artifact = Artifact.get(key)
    assert artifact is not None
    assert artifact.flow_run_id is not None
    return str(artifact.data)


@pytest.mark.slow
def test_gradients_are_published_in_prefect_and_mlflow(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, toy_folder: Path, tmp_path: Path, prefect_server: None
) -> None:
    arguments = ["gradients", "--corpus", str(toy_folder), "--hidden", "8", "--steps", "12", "--rows", "4"]
    lines = printed(capsys, *arguments).splitlines()
    assert lines[0].split("  ")[0] == "network"
    assert len([line for line in lines if line.startswith(("tanh", "relu"))]) == 8
    assert "data:image/png;base64,iVBOR" in shown("gradients")
    assert "| tanh, xavier |" in shown("gradients")
    ((parameters, metrics),) = tracked(tracked_home)
    assert (parameters["corpus"], parameters["mode"]) == ("toy", "stream")
    assert len(metrics["relative_norm/relu_identity"]) == 13

    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json"))  # the same settings, the same run
    assert set(found) == {"curves", "picture"}
    assert [len(curve["norms"][0]) for curve in found["curves"]] == [13] * 8
    picture = Path(found["picture"])
    assert f"picture    {picture}" in lines
    assert picture.parent == tracked_home.probes
    assert picture.read_bytes().startswith(PNG)
    assert len(tracked(tracked_home)) == 1
    link = shown("mlflow-run").partition("(")[2].rstrip(")")
    assert artifacts(tracked_home, link, tmp_path)[picture.name].startswith(PNG)


@pytest.mark.long
def test_echo_is_published_in_prefect_and_mlflow(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, tmp_path: Path, prefect_server: None
) -> None:
    arguments = ["echo", "--distances", "1,3", "--nonlinearity", "tanh", "--hidden", "8", "--training-steps", "3"]
    lines = printed(capsys, *arguments).splitlines()
    assert lines[0].split() == ["network", "1", "back", "3", "back"]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["tanh, xavier", "tanh, orthogonal", "tanh, identity"]
    assert "data:image/png;base64,iVBOR" in shown("echo")
    assert "guessing gives 12.5%" in shown("echo")
    ((parameters, metrics),) = tracked(tracked_home)
    assert parameters["distances"] == "[1, 3]"
    assert [step for step, _ in metrics["echo_accuracy/tanh_identity"]] == [1, 3]
    link = shown("mlflow-run").partition("(")[2].rstrip(")")
    (figures,) = tracked_home.probes.glob("echo*.json")
    assert artifacts(tracked_home, link, tmp_path)[figures.name] == figures.read_bytes()

    one = ["echo", "--nonlinearity", "relu", "--initialization", "identity", "--hidden", "4", "--training-steps", "1"]
    found = json.loads(printed(capsys, *one, "--json"))
    assert [score["distance"] for score in found["scores"]] == [1, 2, 5, 10, 20, 40]
    assert Path(found["picture"]).read_bytes().startswith(PNG)


@pytest.mark.long
def test_abilities_are_published_in_prefect_and_mlflow(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, tmp_path: Path, prefect_server: None
) -> None:
    arguments = ["abilities", "--kinds", "gru", "--tasks", "echo,recall", "--trained-length", "6", "--lengths", "6,9"]
    arguments += ["--seeds", "1", "--parameters", "2000", "--training-steps", "2", "--processes", "1"]
    lines = printed(capsys, *arguments).splitlines()
    assert lines[0] == "right answers in rows of 6 tokens; in training: up to 6"
    assert [line.split()[0] for line in lines[1:5]] == ["network", "gru", "elman-diagonal", "guessing"]
    assert "right answers in rows of 9 tokens; in training: up to 6" in lines
    assert "data:image/png;base64,iVBOR" in shown("abilities")
    assert "| elman-diagonal |" in shown("abilities")
    ((parameters, metrics),) = tracked(tracked_home)
    assert parameters["tasks"] == '["echo", "recall"]'
    assert [step for step, _ in metrics["ability/recall/gru"]] == [6, 9]

    found = json.loads(printed(capsys, *arguments, "--json"))
    assert [(score["network"], score["task"]) for score in found["scores"]] == [
        ("gru", "echo"),
        ("elman-diagonal", "echo"),
        ("gru", "recall"),
        ("elman-diagonal", "recall"),
    ]
    assert f"picture    {found['picture']}" in lines
    link = shown("mlflow-run").partition("(")[2].rstrip(")")
    logged = artifacts(tracked_home, link, tmp_path)
    assert logged[Path(found["table"]).name] == Path(found["table"]).read_bytes()

    without = json.loads(printed(capsys, *arguments, "--no-diagonal", "--json"))
    assert without["scores"] == [score for score in found["scores"] if score["network"] == "gru"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["gradients", "--hidden", "0"], "--hidden"),
        (["gradients", "--corpus", "/no/such/file"], "/no/such/file"),
        (["echo", "--distances", "0"], "--distances"),
        (["echo", "--symbols", "1"], "--symbols"),
        (["abilities", "--kinds", "rnn"], "--kinds"),
        (["abilities", "--tasks", "chess"], "--tasks"),
        (["abilities", "--lengths", "500"], "--lengths"),
    ],
)
def test_a_wrong_call_is_told_in_three_lines(
    capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert main(["probe", *arguments]) == 2
    out, err = capsys.readouterr()
    told = err[err.index("rnnlm: ") :].strip().splitlines()
    assert out == ""
    assert len(told) <= 3
    assert named in " ".join(told)
