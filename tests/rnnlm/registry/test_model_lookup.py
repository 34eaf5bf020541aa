"""Every valid name of a model leads to its folder. The error for another name lists the existing names."""

import shutil
from pathlib import Path

import pytest

from rnnlm.errors import ModelError, TrackingError
from rnnlm.models.model_factory import load_model
from rnnlm.registry.model_lookup import corpus_settings, list_models, model_folder, run_model_folder
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from tests.rnnlm.registry.contest import NAME, Contest


@pytest.mark.long
def test_a_registered_version_is_found_by_alias_and_by_number(decided: Contest) -> None:
    champion = model_folder(decided.home, f"models:/{NAME}@champion")
    assert champion == model_folder(decided.home, f"models:/{NAME}/2")
    assert champion != model_folder(decided.home, f"models:/{NAME}/3")
    weights = (decided.run_of("good").model_folder / "model.safetensors").read_bytes()
    assert (champion / "model.safetensors").read_bytes() == weights
    assert (champion / "rnnlm.json").exists()
    load_model(champion)


@pytest.mark.long
def test_a_registered_version_leads_to_its_run(decided: Contest) -> None:
    home = decided.home
    champion = decided.run_of("good")
    for reference in (f"models:/{NAME}@champion", f"models:/{NAME}/2", str(champion.folder)):
        assert run_model_folder(home, reference) == champion.model_folder
    assert run_model_folder(home, f"models:/{NAME}@challenger") != champion.model_folder
    with pytest.raises(ModelError, match=f"registered: {NAME}"):
        run_model_folder(home, f"models:/{NAME}/7")


@pytest.mark.long
def test_a_version_without_its_own_run_is_refused(decided: Contest) -> None:
    run, reference = decided.run_of("good"), f"models:/{NAME}@champion"
    other = decided.run_of("poor").model_folder / "model.safetensors"
    shutil.copy(other, run.model_folder)
    with pytest.raises(ModelError, match=f"{run.run_id} has been trained again"):
        run_model_folder(decided.home, reference)
    shutil.rmtree(run.folder)
    with pytest.raises(ModelError, match=f"{run.run_id} is not under ") as caught:
        run_model_folder(decided.home, reference)
    assert len(str(caught.value).splitlines()) <= 3
    # The registered model is still found, although its run has been deleted.
    assert model_folder(decided.home, reference).exists()


def test_a_beginning_that_two_runs_share_names_both(toy_run: RunRecord, home: Home) -> None:
    other = toy_run.run_id[:15] + ("0" if toy_run.run_id[15] != "0" else "1")
    shutil.copytree(toy_run.folder, home.runs / other)
    with pytest.raises(ModelError, match=f"the ids of 2 runs begin with this text .*{toy_run.run_id}"):
        model_folder(home, toy_run.run_id[:15])


@pytest.mark.parametrize(
    "name", ["model/model.safetensors", "model/counts.safetensors", "model/tokenizer.json", "run.json"]
)
def test_a_flipped_bit_in_a_finished_run_is_found(
    toy_run: RunRecord, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A run with a flipped bit is refused, whichever of its names is used.

    This holds even if the files were verified before and their sizes and times are recorded.
    """
    file = toy_run.folder / name
    if not file.exists():
        pytest.skip("the toy model has no counts")
    names = [toy_run.run_id, toy_run.run_id[:6], str(toy_run.folder), str(toy_run.model_folder), ".", "model"]
    copied = shutil.copytree(toy_run.folder, tmp_path / "elsewhere")
    monkeypatch.chdir(toy_run.folder)
    for wanted in (*names, str(copied)):
        load_model(model_folder(home, wanted))
    for damaged in (file, copied / name):
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
    for wanted in (*names, str(copied)):
        for find in (model_folder, run_model_folder):
            with pytest.raises(ModelError, match=f"the run is damaged: {name} differs from its sha256"):
                find(home, wanted)
    monkeypatch.chdir(toy_run.model_folder)
    with pytest.raises(ModelError, match="is damaged"):
        model_folder(home, ".")


@pytest.mark.parametrize("depth", ["one", "one/two"])
def test_a_model_in_a_folder_of_few_parts_is_read(
    toy_run: RunRecord, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: str
) -> None:
    shutil.copytree(toy_run.model_folder, tmp_path / depth)
    monkeypatch.chdir(tmp_path)
    for wanted in (depth, f"./{depth}", f"../{tmp_path.name}/{depth}"):
        assert corpus_settings(model_folder(home, wanted)) == {}
    assert corpus_settings(Path("one")) == {}
    assert corpus_settings(Path("/")) == {}
    (tmp_path / "config.json").write_text("[]")
    assert corpus_settings(model_folder(home, depth)) == {}


@pytest.mark.long
@pytest.mark.parametrize(
    "reference",
    ["models:/rnnlm-tyo@champion", f"models:/{NAME}@winner", f"models:/{NAME}/7", f"models:/{NAME}"],
)
def test_a_wrong_name_gets_the_right_names(decided: Contest, reference: str) -> None:
    with pytest.raises(ModelError) as caught:
        model_folder(decided.home, reference)
    assert reference in str(caught.value)
    assert f"registered: {NAME}" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_folder_without_a_model_is_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a model"):
        model_folder(home, str(tmp_path))
    with pytest.raises(ModelError, match="no model, run or folder"):
        model_folder(home, str(tmp_path / "missing"))


@pytest.mark.long
def test_deleted_artifacts_are_named(contest: Contest) -> None:
    uri = contest.register("good").uri
    shutil.rmtree(contest.home.artifacts)
    with pytest.raises(ModelError, match="moved or deleted"):
        model_folder(contest.home, uri)


def test_a_fresh_home_has_no_models_and_asking_makes_no_store(home: Home) -> None:
    assert list_models(home) == []
    with pytest.raises(ModelError, match="no model is registered yet"):
        model_folder(home, "models:/rnnlm-toy@champion")
    assert not home.mlflow_database.exists()


def test_a_registry_that_is_away_is_a_tracking_error(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError):
        list_models(home)


@pytest.mark.long
def test_a_registered_name_that_looks_like_a_run_id_is_the_name(contest: Contest) -> None:
    name = "cafe"
    contest.register("good", model_name=name)
    champion = model_folder(contest.home, f"models:/{name}@champion")
    assert model_folder(contest.home, name) == champion
    run = contest.home.runs / f"{name}00000"
    shutil.copytree(contest.run_of("good").folder, run)
    with pytest.raises(ModelError, match=f"models:/{name}@champion, and") as both:
        model_folder(contest.home, name)
    assert str(run) in str(both.value)
    assert len(str(both.value).splitlines()) == 3
    assert model_folder(contest.home, run.name) == run / "model"
