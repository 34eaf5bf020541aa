"""`rnnlm probe` as flows, on a real Prefect server with a real MLflow: what is shown where."""

from pathlib import Path

import pytest
from prefect.artifacts import Artifact

from flows.operations.flow_runner import run_flow
from flows.probe_echo_flow import probe_echo_flow
from flows.probe_gradients_flow import probe_gradients_flow
from rnnlm.config import SequencesConfig
from rnnlm.home import Home
from rnnlm.presets import build_config
from tests.tasks.comparisons import ECHO, GRADIENTS, PNG, artifacts, tracked

pytestmark = pytest.mark.usefixtures("prefect_server")


def shown(key: str) -> str:
    artifact = Artifact.get(key)
    assert artifact is not None
    assert artifact.flow_run_id is not None
    return str(artifact.data)


def test_gradients_are_shown_on_the_run_and_in_mlflow(tracked_home: Home, toy_folder: Path, tmp_path: Path) -> None:
    pipeline = build_config(corpus=str(toy_folder)).model_copy(update={"sequences": SequencesConfig(mode="stream")})
    found = run_flow(tracked_home, lambda config: probe_gradients_flow(config, pipeline), GRADIENTS)
    assert "data:image/png;base64,iVBOR" in shown("gradients")
    assert "| tanh, xavier |" in shown("gradients")
    ((parameters, metrics),) = tracked(tracked_home)
    assert (parameters["corpus"], parameters["mode"]) == ("toy", "stream")
    assert len(metrics["relative_norm/relu_identity"]) == 6
    link = shown("mlflow-run").partition("(")[2].rstrip(")")
    assert artifacts(tracked_home, link, tmp_path)[found.picture.name].startswith(PNG)

    again = run_flow(tracked_home, lambda config: probe_gradients_flow(config, pipeline), GRADIENTS)
    assert (again.skipped, again.curves) == (True, found.curves)
    assert len(tracked(tracked_home)) == 1


def test_memories_are_shown_on_the_run_and_in_mlflow(tracked_home: Home, tmp_path: Path) -> None:
    found = run_flow(tracked_home, probe_echo_flow, ECHO)
    assert "data:image/png;base64,iVBOR" in shown("echo")
    assert "guessing gives 12.5%" in shown("echo")
    ((parameters, metrics),) = tracked(tracked_home)
    assert parameters["distances"] == "[1, 3]"
    assert [step for step, _ in metrics["echo_accuracy/tanh_identity"]] == [1, 3]
    link = shown("mlflow-run").partition("(")[2].rstrip(")")
    assert artifacts(tracked_home, link, tmp_path)[found.figures.name] == found.figures.read_bytes()
