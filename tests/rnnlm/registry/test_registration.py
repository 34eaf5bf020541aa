"""A run is registered once and promoted by the promotion rule. The registered model can be used without rnnlm."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow.models import Model

from rnnlm.errors import ModelError, TrackingError
from rnnlm.registry import bundle
from rnnlm.registry.bundle import LIBRARY
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.registry_version import facts_of
from rnnlm.registry.stored_versions import delete_unfinished_models
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import experiment_id, reaching_mlflow, tracking_uri
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked
from tests.registrar import Registrar

NAME = "rnnlm-toy"
ABSENT = ["datasets", "duckdb", "flows", "prefect", "rnnlm", "tasks", "transformers"]
STRANGER = """
import importlib.abc, json, sys
absent = json.loads(sys.argv[4])

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
print(json.dumps(model.predict(json.loads(sys.argv[3]))))
"""


def ask_as_a_stranger(home: Home, uri: str, requests: list[dict[str, object]], folder: Path) -> list[dict[str, Any]]:
    """Return the predictions of a process that can import mlflow, torch, tokenizers and safetensors, but not rnnlm."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "PYTHON"))}
    environment["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
    done = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER] + [tracking_uri(home), uri, json.dumps(requests), json.dumps(ABSENT)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.mark.long
def test_the_first_version_is_champion_and_says_what_it_is(register: Registrar) -> None:
    registered = register()
    assert (registered.name, registered.version, registered.alias) == (NAME, 1, "champion")
    assert registered.uri == f"models:/{NAME}@champion"
    with reaching_mlflow(register.home) as client:
        version = client.get_model_version_by_alias(NAME, "champion")
        run = client.get_run(version.run_id)
    assert version.tags["dataset_id"] == register.dataset.dataset_id
    assert facts_of(version.tags)["corpus_digest"] == register.dataset.corpus_digest
    assert version.tags["run_id"] == register.run.run_id
    assert float(facts_of(version.tags)["test_perplexity"]) == register.evaluation.scores["test"].perplexity
    # MLflow was unavailable during training, so registration created the MLflow run.
    assert run.info.status == "FINISHED"
    assert run.data.tags["rnnlm.run_id"] == register.run.run_id


@pytest.mark.long
def test_registering_again_makes_no_second_version_unless_forced_or_deleted(register: Registrar) -> None:
    first, again = register(), register()
    assert not first.skipped
    assert again == first.model_copy(update={"skipped": True, "seconds": again.seconds})
    assert register(force=True).version == 2
    with reaching_mlflow(register.home) as client:
        client.delete_model_version(NAME, "2")
        client.delete_model_version(NAME, "1")
    assert not register().skipped


@pytest.mark.long
def test_a_version_has_only_files_that_we_wrote(register: Registrar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setattr("rnnlm.registry.bundle_check.CHECKED", set())
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    register()
    [folder] = register.home.artifacts.glob("experiments/models/*/artifacts")
    assert list(folder.rglob("__pycache__")) == []


@pytest.mark.parametrize("harm", ["a flipped bit", pytest.param("the code deleted", marks=pytest.mark.slow)])
@pytest.mark.long
def test_damaged_files_of_a_version_are_written_again(registered: Registrar, harm: str) -> None:
    version = registered()
    folder = model_folder(registered.home, version.uri)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    if harm == "a flipped bit":
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(ModelError, match="rollback"):
            model_folder(registered.home, version.uri)
    else:
        shutil.rmtree(folder.parent / "code")
    again = registered()
    assert (again.version, again.skipped, again.repaired) == (1, False, True)
    assert weights.read_bytes() == whole
    assert (folder.parent / "code" / "models" / "elman.py").exists()
    assert registered().skipped


@pytest.mark.long
def test_files_that_a_killed_process_left_are_not_registered(register: Registrar) -> None:
    (register.run.model_folder / "reference").mkdir()
    (register.run.model_folder / "reference" / ".line.parquet.0f3a").write_bytes(b"half")
    (register.run.model_folder / "reference" / "line.parquet").write_bytes(b"whole")
    folder = model_folder(register.home, register().uri)
    assert [path.name for path in (folder / "reference").iterdir()] == ["line.parquet"]


@pytest.mark.long
def test_without_a_marker_the_weights_digest_counts(registered: Registrar) -> None:
    folder = model_folder(registered.home, f"models:/{NAME}/1")
    (folder.parent.parent / "COMPLETE").unlink()  # Simulate a version of an older release, which has no file COMPLETE.
    assert model_folder(registered.home, f"models:/{NAME}/1") == folder
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="differs from the sha256 it was registered with"):
        model_folder(registered.home, f"models:/{NAME}/1")


@pytest.mark.parametrize("alias_moved", [False, True])
@pytest.mark.long
def test_a_call_killed_before_its_last_step_is_resumed(registered: Registrar, alias_moved: bool) -> None:
    """A registration that was killed before its last step is completed by the next call.

    The `alias` tag is written last, after the alias was set.
    """
    with reaching_mlflow(registered.home) as client:
        client.delete_model_version_tag(NAME, "1", "decision")
        if not alias_moved:
            client.delete_registered_model_alias(NAME, "champion")
    version = registered()
    assert (version.version, version.alias, version.skipped) == (1, "champion", False)
    assert version.reason == "there was no champion before it"


@pytest.mark.long
def test_the_same_model_again_does_not_take_over(registered: Registrar) -> None:
    second = registered(force=True)
    assert second.alias == "challenger"
    assert second.reason.startswith(
        "not shown to be better, which is required because it was trained on no newer text: 0.0% "
    )


@pytest.mark.slow
def test_the_model_answers_where_rnnlm_is_not_installed(registered: Registrar, tmp_path: Path) -> None:
    uri = f"models:/{NAME}@champion"
    shutil.rmtree(registered.run.folder)  # The model is served without the files of its run.
    requests: list[dict[str, object]] = [
        {"prompt": "the cat"},
        {"prompt": "the cat", "temperature": 1, "seed": 3, "maximum_tokens": 5},
        {"prompt": "", "temperature": 0, "maximum_tokens": 1},
        {"text": "the cat sees the dog ."},
    ]
    answers = ask_as_a_stranger(registered.home, uri, requests * 2, tmp_path)
    scored = ["bits_per_byte", "log_probability_nats", "perplexity", "tokens"]
    assert [sorted(answer) for answer in answers] == [["text"], ["text"], ["text"], scored] * 2
    assert len(str(answers[1]["text"]).split()) <= 5
    # The second half of the requests has the same seeds, and gets the same responses.
    assert answers[:4] == answers[4:]


@pytest.mark.long
def test_a_data_frame_is_answered_by_row_or_refused(registered: Registrar) -> None:
    import mlflow

    model = mlflow.pyfunc.load_model(served_source(registered.home))
    rows = [{"prompt": "the cat", "seed": 5, "maximum_tokens": 4}, {"prompt": "the dog"}]
    # In a data frame, a missing value stands for the default.
    assert model.predict(pd.DataFrame(rows)) == model.predict(rows)
    mixed = [{"prompt": "the cat"}, {"text": "the dog sees the fox ."}]
    assert model.predict(pd.DataFrame(mixed)) == model.predict(mixed)
    for wrong in ({"temperature": -1.0}, {"temprature": 1.0}):
        with pytest.raises(mlflow.exceptions.MlflowException, match=next(iter(wrong))):
            model.predict([{"prompt": "the cat"} | wrong])


@pytest.mark.long
def test_a_model_that_only_this_repository_can_load_is_not_registered(
    register: Registrar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shutil.copytree(LIBRARY, tmp_path / "rnnlm", ignore=shutil.ignore_patterns("__pycache__"))
    model = library / "models" / "language_model.py"
    model.write_text("import rnnlm.display.plots\n" + model.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(bundle, "LIBRARY", library)
    with pytest.raises(ModelError, match="No module named 'rnnlm'") as refused:
        register()
    assert len(str(refused.value).splitlines()) == 3
    with reaching_mlflow(register.home) as client:
        assert client.search_model_versions(f"name = '{NAME}'") == []
        experiments = [found.experiment_id for found in client.search_experiments()]
        assert list(client.search_logged_models(experiments)) == []
    monkeypatch.undo()
    assert register().alias == "champion"


def test_an_own_cell_is_bundled_by_its_import(tmp_path: Path) -> None:
    library = shutil.copytree(LIBRARY, tmp_path / "rnnlm", ignore=shutil.ignore_patterns("__pycache__"))
    (library / "models" / "own.py").write_text("from .cell import Cell\nfrom . import own_gates\n", encoding="utf-8")
    (library / "models" / "own_gates.py").write_text("import torch\n", encoding="utf-8")
    model = library / "models" / "language_model.py"
    model.write_text("from .own import Own\n" + model.read_text(encoding="utf-8"), encoding="utf-8")
    added = {Path("models/own.py"), Path("models/own_gates.py")}
    assert set(bundle.portable_modules(library)) - set(bundle.portable_modules()) == added


def served_source(home: Home) -> str:
    with reaching_mlflow(home) as client:
        return str(client.get_model_version(NAME, "1").source)


@pytest.mark.long
def test_a_version_holds_no_pickle_and_shows_five_tags(registered: Registrar) -> None:
    with reaching_mlflow(registered.home) as client:
        version = client.get_model_version(NAME, "1")
    folder = Path(version.source.removeprefix("file://"))
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert ".safetensors" in suffixes
    assert not suffixes & {".pkl", ".pt", ".pth", ".bin"}
    pinned = (folder / "requirements.txt").read_text(encoding="utf-8").split()
    assert all("==" in line for line in pinned)
    # Only values for filtering are separate tags, because MLflow's list of versions shows every tag.
    assert set(version.tags) == {"decision", "dataset_id", "run_id", "facts"}
    fenced = [block for index, block in enumerate(version.description.split("```")) if index % 2]
    assert max(len(line) for block in fenced for line in block.splitlines()) <= 76


def test_mlflow_away_is_a_tracking_error(register: Registrar, monkeypatch: pytest.MonkeyPatch) -> None:
    # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match="127.0.0.1:9"):
        register()


@pytest.mark.long
def test_mlflow_ranks_the_logged_model_by_its_scores_on_a_split(registered: Registrar) -> None:
    with reaching_mlflow(registered.home) as client:
        version = client.get_model_version(NAME, "1")
        run = client.get_run(version.run_id)
        digests = {one.tags[0].value: one.dataset.digest for one in run.inputs.dataset_inputs}
        [model] = client.search_logged_models(
            [run.info.experiment_id],
            "metrics.test_perplexity > 0 and tags.corpus_name = 'toy'",
            datasets=[{"dataset_name": "toy", "dataset_digest": digests["testing"]}],
            order_by=[{"field_name": "metrics.test_perplexity", "ascending": True}],
        )
        description = client.get_registered_model(NAME).description
    assert set(digests) == {"training", "validation", "testing"}
    assert model.params["model.hidden_size"] == str(registered.config.model.hidden_size)
    scores = {metric.key: metric for metric in model.metrics}
    assert scores["test_perplexity"].value == registered.evaluation.scores["test"].perplexity
    assert scores["validation_perplexity"].dataset_digest == digests["validation"]
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": NAME, "version": 1}]
    assert "corpus `toy`" in description
    saved = Model.load(served_source(registered.home).removeprefix("file://"))
    assert saved.signature.inputs is not None
    assert saved.saved_input_example_info is not None


@pytest.mark.long
def test_runs_are_filtered_by_corpus_and_decision(registered: Registrar) -> None:
    second = run_training(
        registered.home, changed(registered.config, {"training.seed": 7}), registered.dataset, untracked
    )
    for run in (None, second):
        assert not registered(force=True, run=run).skipped
    with reaching_mlflow(registered.home) as client:
        experiment = client.get_experiment_by_name("rnnlm")
        view = json.loads(experiment.tags["mlflow.sharedViewState.rnnlm"])
        for decision, count in (("champion", 0), ("challenger", 2)):
            wanted = f"tags.corpus = 'toy' and tags.decision = '{decision}'"
            assert len(client.search_runs([experiment.experiment_id], wanted)) == count
        assert {"tags.`corpus`", "tags.`decision`"} <= set(view["selectedColumns"])
        # Set the tag that rnnlm 0.3 wrote.
        client.set_experiment_tag(experiment.experiment_id, "mlflow.sharedViewState.rnnlm", "{}")
        experiment_id(client, registered.home, "rnnlm")
        again = client.get_experiment_by_name("rnnlm")
        assert json.loads(again.tags["mlflow.sharedViewState.rnnlm"]) == view


@pytest.mark.long
def test_the_first_run_of_a_corpus_is_found_as_champion(register: Registrar) -> None:
    register()
    with reaching_mlflow(register.home) as client:
        [run] = client.search_runs([experiment_id(client, register.home, "rnnlm")], "tags.decision = 'champion'")
    assert run.data.tags["corpus"] == "toy"


def test_a_killed_registration_leaves_no_pending_model(registered: Registrar) -> None:
    with reaching_mlflow(registered.home) as client:
        experiment = client.get_run(client.get_model_version(NAME, "1").run_id).info.experiment_id
        for name, kind in ((NAME, "language model"), ("rnnlm-other", "language model"), ("foreign", "classifier")):
            # Create a logged model as a killed registration leaves it.
            client.create_logged_model(experiment, name=name, model_type=kind)
        assert delete_unfinished_models(registered.home) == 2
        left = {model.name: str(model.status) for model in client.search_logged_models([experiment])}
    assert left == {NAME: "READY", "foreign": "PENDING"}
