"""`rnnlm probe` prints its results and shows them in Prefect and MLflow. The server and the store are real."""

import json
from pathlib import Path

import pytest
from prefect.artifacts import Artifact

from flows.command_line import main
from rnnlm.storage.home import Home
from tests.tasks.tracked_probes import PNG, artifacts, tracked

ECHO = "echo --distances 1,3 --nonlinearity tanh --hidden 8 --training-steps 3"
GRADIENTS = "gradients --hidden 8 --steps 12 --rows 4 --corpus"
ABILITIES = (
    "abilities --kinds gru --tasks echo,recall --trained-length 6 --lengths 6,9 "
    "--seeds 1 --parameters 2000 --training-steps 2 --processes 1"
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["probe", *arguments]) == 0
    return capsys.readouterr().out


def shown(key: str) -> str:
    artifact = Artifact.get(key)
    assert artifact is not None
    assert artifact.flow_run_id is not None
    return str(artifact.data)


@pytest.mark.parametrize(
    ("command", "page", "row", "parameter", "metric"),
    [
        (ECHO, "echo", "| tanh, identity |", ("distances", "[1, 3]"), ("echo_accuracy/tanh_identity", [1, 3])),
        (ABILITIES, "abilities", "| elman-diagonal |", ("tasks", '["echo", "recall"]'), ("ability/recall/gru", [6, 9])),
    ],
)
@pytest.mark.long
def test_a_probe_is_printed_and_published_in_prefect_and_mlflow(
    capsys: pytest.CaptureFixture[str],
    tracked_home: Home,
    tmp_path: Path,
    prefect_server: None,
    command: str,
    page: str,
    row: str,
    parameter: tuple[str, str],
    metric: tuple[str, list[int]],
) -> None:
    arguments = command.split()
    lines = printed(capsys, *arguments).splitlines()
    assert any(line.startswith(("network", "  network")) for line in lines)
    assert "data:image/png;base64,iVBOR" in shown(page)
    assert row in shown(page)
    ((parameters, metrics),) = tracked(tracked_home)
    assert parameters[parameter[0]] == parameter[1]
    assert [step for step, _ in metrics[metric[0]]] == metric[1]

    # A second call with the same settings returns the stored results and the same MLflow run.
    found = json.loads(printed(capsys, *arguments, "--json"))
    assert f"picture    {found['picture']}" in lines
    assert Path(found["picture"]).read_bytes().startswith(PNG)
    assert found.get("scores") or found.get("curves")
    assert len(tracked(tracked_home)) == 1
    link = shown("mlflow-run").partition("(")[2].rstrip(")")
    assert artifacts(tracked_home, link, tmp_path)[Path(found["picture"]).name].startswith(PNG)
