"""The weights of an ensemble are optimal. An existing ensemble is reused, and unsuitable runs are refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.count_shares import best_shares, mean_nll
from rnnlm.extensions.ensembles.ensemble_run import Member, find_members, make_ensemble
from rnnlm.models.ensemble import Ensemble
from rnnlm.models.model_factory import load_model
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked


def loss_of(shares: np.ndarray, nll_nats: np.ndarray) -> float:
    return mean_nll(np.log(shares @ np.exp(-nll_nats)))


def test_the_shares_are_the_best_on_a_grid_of_all() -> None:
    nll_nats = np.random.default_rng(0).gamma(2.0, [[1.0], [1.1], [1.2]], (3, 500))
    shares = best_shares(nll_nats)
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0.2).all()
    steps = np.linspace(0, 1, 51)
    grid = [np.array([a, b, 1 - a - b]) for a in steps for b in steps if a + b <= 1]
    assert loss_of(shares, nll_nats) <= min(loss_of(one, nll_nats) for one in grid)


def test_a_network_that_is_always_worse_gets_no_share() -> None:
    nll_nats = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0]])
    assert best_shares(nll_nats) == pytest.approx([1, 0], abs=1e-4)


def members_of(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord
) -> tuple[list[Member], DatasetRecord]:
    """Return two members: the toy run, and a run of another kind of model with the toy run as its teacher."""
    settings = {"model.kind": "min-gru", "training.teacher.run": run.run_id}
    other = run_training(home, changed(config, settings), dataset, untracked)
    return find_members(home, [other.model_folder, run.model_folder])


@pytest.mark.long
def test_an_ensemble_is_a_run_that_beats_its_networks_on_validation(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    members, dataset = members_of(home, toy_config, toy_dataset, toy_run)
    run = make_ensemble(home, members, dataset)
    assert isinstance(load_model(run.model_folder), Ensemble)
    assert [member.run_id for member in run.members] == [member.run.run_id for member in members]
    assert sum(member.share for member in run.members) == pytest.approx(1)
    assert read_json(run.folder / "config.json")["training"]["teacher"]["run"] is None
    alone = [member.validation_perplexity for member in run.members]
    assert run.best_validation_perplexity <= min(alone) * (1 + 1e-6)
    again = make_ensemble(home, members, dataset)
    assert again == run.model_copy(update={"skipped": True, "seconds": again.seconds})
    (run.model_folder / "model.safetensors").write_bytes(b"")
    assert not make_ensemble(home, members, dataset).skipped  # The damaged ensemble is created again.
    assert not [path for path in home.runs.iterdir() if path.name.startswith(".")]


@pytest.mark.long
def test_members_are_mixed_on_their_dataset_in_any_working_folder(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An ensemble's members use their stored dataset in any working folder.

    A relative path of the training text, as in runs of older versions, may name another text there.
    """
    members, dataset = members_of(home, toy_config, toy_dataset, toy_run)
    run = make_ensemble(home, members, dataset)
    for member in members:
        path = member.run.folder / "config.json"
        write_json(path, read_json(path) | {"corpus": {"source": "texts"}})
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.txt").write_text("quite another text\n" * 99, encoding="utf-8")
    shutil.rmtree(run.folder)
    for folder in (tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        found = find_members(home, [member.run.model_folder for member in members])
        again = make_ensemble(home, *found)
        assert (again.run_id, again.members) == (run.run_id, run.members)
        shutil.rmtree(again.folder)


def test_an_ensemble_is_fetched_from_the_storage(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members, dataset = members_of(home, toy_config, toy_dataset, toy_run)
    monkeypatch.setenv("RNNLM_STORAGE", (tmp_path / "storage").as_uri())
    run = make_ensemble(home, members, dataset)
    weights = (run.model_folder / "model.safetensors").read_bytes()
    shutil.rmtree(run.folder)
    assert make_ensemble(home, members, dataset).skipped
    assert (run.model_folder / "model.safetensors").read_bytes() == weights


def test_what_is_no_network_of_the_same_dataset_is_refused(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord, tmp_path: Path
) -> None:
    for folders in ([toy_run.model_folder], [toy_run.model_folder] * 2):
        with pytest.raises(ModelError, match="at least two models"):
            find_members(home, folders)
    counts = run_training(home, changed(toy_config, {"model.kind": "kneser-ney"}), toy_dataset, untracked)
    with pytest.raises(ModelError, match="only n-gram counts"):
        find_members(home, [toy_run.model_folder, counts.model_folder])
    with pytest.raises(ModelError, match="finished run"):
        find_members(home, [toy_run.model_folder, tmp_path / "model"])
    other = home.runs / "other"
    facts = toy_run.model_dump(mode="json", exclude={"folder", "skipped", "seconds"})
    other.mkdir()
    write_json(other / "config.json", toy_config.model_dump(mode="json"))
    for change, message in (
        ({"dataset_id": "0" * 16}, "2 datasets"),
        (
            {
                "started_from": {
                    "name": "a",
                    "version": 1,
                    "model_sha256": "0",
                    "token_rows_kept": 1,
                    "token_rows": 1,
                }
            },
            "another model's weights",
        ),
    ):
        write_json(other / "run.json", facts | change)
        with pytest.raises(ModelError, match=message):
            find_members(home, [toy_run.model_folder, other / "model"])
