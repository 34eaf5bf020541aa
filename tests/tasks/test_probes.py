import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rnnlm.config import TrackingConfig, TrainingConfig
from rnnlm.extensions.probes import abilities
from rnnlm.extensions.probes.echo import measure_echo
from rnnlm.extensions.probes.gradients import measure_gradients as measured
from rnnlm.extensions.probes.kind_probes import stored_ability
from rnnlm.extensions.probes.probe_page import abilities_page, echo_page, gradients_page
from rnnlm.extensions.probes.probe_records import AbilityComparison, GradientCurve, metric_name
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.probes import log_probe, probe_abilities, probe_ability, probe_echo, probe_gradients
from tests.ability_scores import ability_score
from tests.tasks.tracked_probes import ABILITIES, ECHO, GRADIENTS, PNG, artifacts, tracked

PROGRAM = """
import sys
from rnnlm.storage.home import find_home
from rnnlm.extensions.probes.probe_config import AbilitiesConfig
from rnnlm.extensions.probes.kind_probes import compare_abilities
compare_abilities(find_home(), AbilitiesConfig.model_validate_json(sys.argv[1]))
"""


def stored(home: Home) -> dict[Path, int]:
    """Return the stored results of networks, each with the time at which it was written."""
    return {path: path.stat().st_mtime_ns for path in home.probes.glob("ability-*.json")}


@pytest.mark.long
def test_an_ability_is_measured_once_for_its_seed(home: Home) -> None:
    call = (stored_ability, home, ABILITIES, "elman", "parity", 1)
    score = probe_ability.fn(*call, False)
    assert (score.network, score.task, score.seed, score.steps) == ("elman", "parity", 1, 2)
    assert score == abilities.measure_ability(ABILITIES, "elman", "parity", seed=1)
    before = stored(home)
    assert len(before) == 1
    assert probe_ability.fn(*call, False) == score
    assert stored(home) == before
    probe_ability.fn(*call, True)
    assert stored(home) != before


@pytest.mark.long
def test_abilities_are_measured_once_and_kept_with_a_picture_and_a_table(home: Home) -> None:
    found = probe_abilities.fn(ABILITIES)
    assert not found.skipped
    assert [(score.seed, score.task, score.network) for score in found.scores] == [
        (seed, task, network)
        for seed in (0, 1)
        for task in ("parity", "echo")
        for network in ("elman", "transformer", "elman-diagonal")
    ]
    assert found.scores[0] == abilities.measure_ability(ABILITIES, "elman", "parity", seed=0)
    assert found.picture.read_bytes().startswith(PNG)
    assert json.loads(found.figures.read_text())["value"]["settings"]["parameters"] == 1_500
    rows = pq.read_table(found.table).to_pylist()
    assert rows == found.rows
    assert len(rows) == 12 * 3  # Each of the twelve networks was tested on three lengths.
    first = found.scores[0]
    assert rows[1] == {
        "network": "elman",
        "task": "parity",
        "seed": 0,
        "hidden_size": first.hidden_size,
        "parameters": first.parameters,
        "steps": 2,
        "length": 12,
        "accuracy": first.accuracies[1],
        "chance": first.chances[1],
    }

    # The number of processes does not change the results.
    again = probe_abilities.fn(ABILITIES.model_copy(update={"processes": 2}))
    assert (again.skipped, again.scores) == (True, found.scores)

    networks = stored(home)
    assert len(networks) == 12
    # Only the networks of the third seed are measured.
    more = probe_abilities.fn(ABILITIES.model_copy(update={"seeds": 3}))
    assert not more.skipped
    assert more.scores[:12] == found.scores
    assert len(stored(home)) == 18
    assert networks.items() <= stored(home).items()

    found.table.unlink()
    probe_abilities.fn(ABILITIES)
    assert pq.read_table(found.table).to_pylist() == rows
    assert probe_abilities.fn(ABILITIES, force=True).scores == found.scores
    assert not networks.items() & stored(home).items()  # With force, all twelve networks are measured again.


@pytest.mark.long
def test_a_killed_probe_resumes_with_the_next_network(home: Home) -> None:
    config = ABILITIES.model_copy(update={"seeds": 1, "training_steps": 60})
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, config.model_dump_json()],
        env=os.environ | {"RNNLM_HOME": str(home.root)},
        start_new_session=True,
    )
    assert poll_until(lambda: process.poll() is not None or bool(stored(home)), 120, every_seconds=0.01)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = stored(home)
    assert 1 <= len(before) < 6
    assert not list(home.probes.glob("abilities-*.json"))

    found = probe_abilities.fn(config)
    assert len(found.scores) == len(stored(home)) == 6
    assert before.items() <= stored(home).items()
    assert found.scores[0] == abilities.measure_ability(config, "elman", "parity", seed=0)


def comparison(picture: Path) -> AbilityComparison:
    picture.write_bytes(PNG)
    scores = (
        ability_score("gru", "parity", (1.0, 0.8), seed=0),
        ability_score("gru", "parity", (0.99, 0.4), seed=1),
        ability_score("lstm", "parity", (0.98, 1.0), seed=0),
        ability_score("lstm", "parity", (0.5, 0.5), seed=1),
    )
    return AbilityComparison(key="k", settings={"trained_length": 24}, picture=picture, scores=scores)


def test_the_table_has_mean_accuracies_and_how_many_seeds_learned_it(tmp_path: Path) -> None:
    text = abilities_page(comparison(tmp_path / "abilities.png")).text()
    assert text.splitlines() == [
        "right answers in rows of 24 tokens; in training: up to 24",
        "  network     parity",
        "  gru       100% 2/2",
        "  lstm       74% 0/2",
        "  guessing       50%",
        "",
        "right answers in rows of 192 tokens; in training: up to 24",
        "  network    parity",
        "  gru       60% 0/2",
        "  lstm      75% 1/2",
        "  guessing      50%",
        "",
        "Means over seeds; 1/3: one of three seeds gets at least 99% right.",
        "",
        f"picture    {tmp_path / 'abilities.png'}",
        f"table      {tmp_path / 'abilities.parquet'}",
    ]
    report = abilities_page(comparison(tmp_path / "abilities.png")).markdown()
    assert "data:image/png;base64,iVBOR" in report
    assert "| gru | 60% 0/2 |" in report


@pytest.mark.long
def test_echo_scores_are_stored_once_and_reported(home: Home) -> None:
    found = probe_echo.fn(ECHO)
    assert list(found.scores) == measure_echo(ECHO)
    assert (found.skipped, found.picture.parent) == (False, home.probes)
    assert json.loads(found.figures.read_text())["value"]["settings"]["training_steps"] == 2
    found.picture.unlink()
    again = probe_echo.fn(ECHO)
    assert (again.skipped, again.scores) == (True, found.scores)
    assert again.picture.read_bytes().startswith(PNG)
    assert not probe_echo.fn(ECHO, force=True).skipped
    report = echo_page(found).markdown()
    assert "data:image/png;base64,iVBOR" in report
    assert "| network | 1 back | 3 back |" in report
    assert f"| tanh, xavier | {found.scores[0].accuracy:.0%} | {found.scores[1].accuracy:.0%} |" in report
    assert "guessing gives 12.5%" in report


@pytest.mark.long
def test_gradients_are_stored_reported_and_logged_once(
    tracked_home: Home, toy_dataset: DatasetRecord, tmp_path: Path
) -> None:
    found = probe_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    assert list(found.curves) == measured(toy_dataset, GRADIENTS, window_length=35)
    kept = json.loads(found.figures.read_text())["value"]
    assert (kept["settings"]["dataset_id"], kept["curves"][7]["start"]) == (toy_dataset.dataset_id, "identity × 1.2")
    report, norms = gradients_page(found).markdown(), found.curves[0].norms[0]
    assert "| network | steps | norm | 1 back | 5 back |" in report
    assert f"| tanh, xavier | 0 | {norms[0]:.2e} | {norms[1] / norms[0]:.2e} | {norms[5] / norms[0]:.2e} |" in report

    url = log_probe.fn(found, TrackingConfig(experiment="probes"))
    again = probe_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    assert (again.skipped, again.curves) == (True, found.curves)
    # A second call updates the existing MLflow run.
    assert log_probe.fn(again, TrackingConfig(experiment="probes")) == url
    ((parameters, metrics),) = tracked(tracked_home, "probes")
    assert (parameters["hidden_size"], parameters["dataset_id"]) == ("4", toy_dataset.dataset_id)
    assert len(metrics) == 8  # There is one metric for each of two nonlinearities with four initializations.
    assert metrics["relative_norm/tanh_xavier"] == [(k, pytest.approx(norms[k] / norms[0])) for k in range(6)]
    assert url is not None
    logged = artifacts(tracked_home, url, tmp_path)
    assert logged[found.picture.name].startswith(PNG)
    assert len(json.loads(logged[found.figures.name])["value"]["curves"]) == 8


def test_names_of_networks_have_only_characters_that_mlflow_takes() -> None:
    curve = GradientCurve(nonlinearity="tanh", start="identity × 2e+06", trained_steps=1, norms=((1.0,),))
    assert metric_name(curve) == "tanh_identity-x2e06_after-1-steps"


@pytest.mark.long
def test_logging_waits_for_mlflow_and_finishes_what_a_kill_left(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = probe_echo.fn(ECHO)
    with monkeypatch.context() as away:
        away.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # No server listens on port 9 (discard).
        away.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        assert log_probe.fn(found, TrackingConfig()) is None
    assert f"{found.picture.stem} could not be logged to MLflow" in caplog.text
    assert tracked(tracked_home) == []

    url = log_probe.fn(probe_echo.fn(ECHO), TrackingConfig())
    assert url is not None
    with reaching_mlflow(tracked_home) as client:
        client.update_run(url.rpartition("/")[2].partition("?")[0], status="RUNNING")
    assert log_probe.fn(probe_echo.fn(ECHO), TrackingConfig()) == url
    ((_, metrics),) = tracked(tracked_home)
    accuracies = {score.distance: score.accuracy for score in found.scores if score.initialization == "xavier"}
    assert metrics["echo_accuracy/tanh_xavier"] == sorted(accuracies.items())  # Each accuracy is logged once.
    # A new measurement gets a new MLflow run.
    assert log_probe.fn(probe_echo.fn(ECHO, force=True), TrackingConfig()) != url
    assert len(tracked(tracked_home)) == 2
