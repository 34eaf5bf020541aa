"""Abilities are measured once for each network, task and seed, also when the probe is killed in between."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rnnlm.home import Home
from rnnlm.polling import poll_until
from rnnlm.probes.abilities import measure_ability
from rnnlm.probes.probe_config import AbilitiesConfig
from rnnlm.probes.probe_records import AbilityComparison
from rnnlm.reports.probe_page import abilities_report, abilities_text
from tasks.compare_abilities import compare_abilities
from tests.ability_scores import ability_score
from tests.tasks.comparisons import ABILITIES, PNG

PROGRAM = """
import sys
from rnnlm.home import find_home
from rnnlm.probes.probe_config import AbilitiesConfig
from rnnlm.probes.run_probes import compare_abilities
compare_abilities(find_home(), AbilitiesConfig.model_validate_json(sys.argv[1]))
"""


def stored(home: Home) -> dict[Path, int]:
    """When each stored network was written."""
    return {path: path.stat().st_mtime_ns for path in home.probes.glob("ability-*.json")}


@pytest.mark.long
def test_abilities_are_measured_once_and_kept_with_a_picture_and_a_table(home: Home) -> None:
    found = compare_abilities.fn(ABILITIES)
    assert not found.skipped
    assert [(score.seed, score.task, score.network) for score in found.scores] == [
        (seed, task, network)
        for seed in (0, 1)
        for task in ("parity", "echo")
        for network in ("elman", "transformer", "elman-diagonal")
    ]
    assert found.scores[0] == measure_ability(ABILITIES, "elman", "parity", seed=0)
    assert found.picture.read_bytes().startswith(PNG)
    assert json.loads(found.figures.read_text())["value"]["settings"]["parameters"] == 1_500
    rows = pq.read_table(found.table).to_pylist()
    assert rows == found.rows
    assert len(rows) == 12 * 3  # three lengths each
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

    again = compare_abilities.fn(ABILITIES.model_copy(update={"processes": 2}))  # which cannot change the figures
    assert (again.skipped, again.scores) == (True, found.scores)

    networks = stored(home)
    assert len(networks) == 12
    more = compare_abilities.fn(ABILITIES.model_copy(update={"seeds": 3}))  # only the third seed is measured
    assert not more.skipped
    assert more.scores[:12] == found.scores
    assert len(stored(home)) == 18
    assert networks.items() <= stored(home).items()

    found.table.unlink()
    compare_abilities.fn(ABILITIES)
    assert pq.read_table(found.table).to_pylist() == rows
    assert compare_abilities.fn(ABILITIES, force=True).scores == found.scores
    assert not networks.items() & stored(home).items()  # all twelve were measured again


@pytest.mark.long
def test_a_killed_probe_goes_on_with_the_next_network(home: Home) -> None:
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

    found = compare_abilities.fn(config)
    assert len(found.scores) == len(stored(home)) == 6
    assert before.items() <= stored(home).items()
    assert found.scores[0] == measure_ability(config, "elman", "parity", seed=0)


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
    text = abilities_text(comparison(tmp_path / "abilities.png"))
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
        f"picture  {tmp_path / 'abilities.png'}",
        f"table    {tmp_path / 'abilities.parquet'}",
    ]


def test_the_report_shows_the_picture_and_both_tables(tmp_path: Path) -> None:
    report = abilities_report(comparison(tmp_path / "abilities.png"))
    assert "data:image/png;base64,iVBOR" in report
    assert "| gru | 60% 0/2 |" in report
    assert "| guessing | 50% |" in report


def test_the_whole_table_fits_a_terminal(tmp_path: Path) -> None:
    config = AbilitiesConfig()
    scores = tuple(
        ability_score(network, task, (1.0, 1.0), seed=seed)
        for seed in range(3)
        for network in (*config.kinds, "elman-diagonal")
        for task in config.tasks
    )
    picture = tmp_path / "abilities.png"
    picture.write_bytes(PNG)
    found = AbilityComparison(key="k", settings={"trained_length": 24}, picture=picture, scores=scores)
    lines = abilities_text(found).splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80


@pytest.mark.parametrize("changed", [{"lengths": ()}, {"kinds": ()}, {"tasks": ()}, {"trained_length": 5}])
def test_a_probe_needs_networks_tasks_and_rows_long_enough(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        AbilitiesConfig.model_validate(changed)
