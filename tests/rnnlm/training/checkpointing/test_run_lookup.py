"""An unfinished run is found by its id, the beginning of its id, or its folder. Errors have at most three lines."""

import json
import shutil
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError, DatasetError, ModelError
from rnnlm.extensions.distributed.distributed_config import DistributedConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import STAGE_VERSIONS
from rnnlm.training.checkpointing.run_lookup import find_unfinished
from rnnlm.training.training_run import name_run

PROCESSES = "training.distributed.processes"


@pytest.fixture
def unfinished(toy_run: RunRecord) -> RunRecord:
    (toy_run.folder / "COMPLETE").unlink()
    return toy_run


def fails(home: Home, name: str, *parts: str) -> None:
    with pytest.raises(ModelError) as caught:
        find_unfinished(home, name)
    assert len(str(caught.value).splitlines()) <= 3
    for part in parts:
        assert part in str(caught.value)


def test_id_prefix_and_folder_name_the_same_run(home: Home, toy_dataset: DatasetRecord, unfinished: RunRecord) -> None:
    for name in (unfinished.run_id, unfinished.run_id[:4], str(unfinished.folder)):
        config, dataset = find_unfinished(home, name)
        assert dataset.model_dump(exclude={"seconds"}) == toy_dataset.model_dump(exclude={"seconds"})
        assert config.model.hidden_size == 16


def test_forced_stages_are_not_forced_again(home: Home, unfinished: RunRecord) -> None:
    path = unfinished.folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"force": ["training"]}))
    assert find_unfinished(home, unfinished.run_id)[0].force == ()


def test_a_run_whose_configuration_has_former_paths_is_found(home: Home, unfinished: RunRecord) -> None:
    path = unfinished.folder / "config.json"
    stored = json.loads(path.read_text())
    expected = find_unfinished(home, unfinished.run_id)[0]
    stored["training"]["learning_rate"] = stored["training"].pop("optimizer")["learning_rate"]
    stored["training"]["schedule"] = stored["training"]["schedule"]["kind"]
    path.write_text(json.dumps(stored))
    assert find_unfinished(home, unfinished.run_id)[0] == expected


def test_a_complete_run_is_refused_with_advice(home: Home, toy_run: RunRecord) -> None:
    fails(home, toy_run.run_id, "complete", "rnnlm generate", "--force training")


def test_an_unknown_run_names_the_unfinished_ones(home: Home, unfinished: RunRecord) -> None:
    fails(home, "nothing", "nothing", unfinished.run_id)
    shutil.rmtree(unfinished.folder)
    fails(home, "nothing", "no run is unfinished")


def test_a_run_outside_the_home_is_not_resumed(home: Home, unfinished: RunRecord, tmp_path: Path) -> None:
    """A run outside the rnnlm home cannot be resumed, because its checkpoints are not in the home.

    Otherwise training would start again from the first step.
    """
    copy = tmp_path / "backup" / unfinished.run_id
    shutil.copytree(unfinished.folder, copy)
    fails(home, str(copy), "no such run in", unfinished.run_id)


def test_an_interrupted_ensemble_is_mixed_again(home: Home, unfinished: RunRecord) -> None:
    RunFolder(unfinished.folder).started_path.write_text(json.dumps({"run_id": "0", "members": ["aaa", "bbb"]}))
    fails(home, unfinished.run_id, "mix it again: rnnlm mix aaa bbb")


def test_two_runs_with_one_prefix_are_named(home: Home, unfinished: RunRecord) -> None:
    other = home.runs / f"{unfinished.run_id[:4]}0000"
    other.mkdir()
    (other / "started.json").write_text("{}")
    fails(home, unfinished.run_id[:4], unfinished.run_id, other.name)


def test_a_missing_dataset_is_named(home: Home, toy_dataset: DatasetRecord, unfinished: RunRecord) -> None:
    toy_dataset.database.unlink()
    with pytest.raises(DatasetError, match="sequences.duckdb is missing"):
        find_unfinished(home, unfinished.run_id)
    shutil.rmtree(toy_dataset.folder)
    fails(home, unfinished.run_id, toy_dataset.dataset_id[:12], "rnnlm prepare")


def test_a_run_of_other_versions_cannot_be_resumed(
    home: Home, unfinished: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STAGE_VERSIONS, "training", 99)
    fails(home, unfinished.run_id, "other versions", "train a new run")


def test_a_configuration_of_another_version_is_refused(
    home: Home, unfinished: RunRecord, toy_config: PipelineConfig
) -> None:
    (unfinished.folder / "config.json").write_text(json.dumps({"training": {"momentum": 1}}))
    fails(home, unfinished.run_id, "config.json", "1 errors")


def test_another_number_of_processes_continues_the_same_run(home: Home, unfinished: RunRecord) -> None:
    config, dataset = find_unfinished(home, unfinished.run_id, {PROCESSES: 3})
    distributed = DistributedConfig.of(config.training)
    assert (distributed.processes, distributed.processes_at_start) == (3, 1)
    assert name_run(config, dataset, None) == unfinished.run_id
    path = unfinished.folder / "config.json"
    # A resumed run stores its configuration in this form, so it can be resumed a second time.
    path.write_text(config.model_dump_json())
    for changes, processes, at_start in (({}, 3, 1), ({PROCESSES: 2}, 2, 1), ({PROCESSES: 1}, 1, None)):
        config, dataset = find_unfinished(home, unfinished.run_id, changes)
        distributed = DistributedConfig.of(config.training)
        assert (distributed.processes, distributed.processes_at_start) == (processes, at_start)
        assert name_run(config, dataset, None) == unfinished.run_id


def test_only_the_processes_may_change(home: Home, unfinished: RunRecord) -> None:
    for changes, told in (
        ({"training.epochs": 5}, "training.epochs cannot change"),
        ({PROCESSES: 0}, "processes"),
        ({PROCESSES: 1000}, "batch_size"),
    ):
        with pytest.raises(ConfigError, match=told):
            find_unfinished(home, unfinished.run_id, changes)
