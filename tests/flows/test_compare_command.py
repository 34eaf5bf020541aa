"""`rnnlm compare`: real training runs of several kinds, on a real Prefect server with a real MLflow store."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from prefect.artifacts import Artifact

from flows.command_line import main
from rnnlm.home import Home
from rnnlm.records import CorpusRecord, RunRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.long]
SMALL = (
    *("--set", "model.hidden_size=16", "--set", "training.epochs=1", "--set", "tokenizer.kind=word"),
    *("--cost-seconds", "0.1", "--models", "elman,min-gru,kneser-ney", "--seeds", "2", "--trials", "2"),
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["compare", *arguments]) == 0
    return capsys.readouterr().out


def test_kinds_are_trained_ranked_and_reported_and_nothing_is_trained_twice(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, toy_folder: Path, prefect_server: None
) -> None:
    text = printed(capsys, "--corpus", str(toy_folder), *SMALL)
    lines = text.splitlines()
    assert lines[0].split()[:2] == ["model", "perplexity"]
    assert {line.split()[0] for line in lines[1:4]} == {"Elman", "minGRU", "Kneser-Ney"}
    assert max(map(len, lines[:-1])) <= 80
    runs = sorted(tracked_home.runs.glob("*/COMPLETE"))
    assert len(runs) == 2 * (2 + 2)  # trials and seeds of two kinds

    found = json.loads(printed(capsys, "--corpus", str(toy_folder), *SMALL, "--json"))
    assert found["skipped"]
    assert sorted(tracked_home.runs.glob("*/COMPLETE")) == runs
    seeds = {model["model"]: len(model["runs"]) for model in found["models"]}
    assert seeds == {"elman": 2, "min-gru": 2, "kneser-ney": 1}
    assert len(found["pairs"]) == 3
    best, second = found["pairs"][0]["first"], found["pairs"][0]["second"]
    assert [best, second] == [model["model"] for model in found["models"][:2]]
    difference = mean_bits(found, best) - mean_bits(found, second)
    assert found["pairs"][0]["difference"] == pytest.approx(difference, abs=1e-6)

    folder = Path(found["folder"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<table>" in page
    assert not re.search(r'(src|href)="(?!data:)', page)  # nothing is fetched
    assert pq.read_table(folder / "runs.parquet").num_rows == 5
    artifact = Artifact.get("toy-comparison")
    assert artifact is not None
    assert "data:image/png;base64,iVBOR" in str(artifact.data)
    with reaching_mlflow(tracked_home) as client:
        experiment = client.get_experiment_by_name("rnnlm")
        assert experiment is not None
        tracked = client.search_runs([experiment.experiment_id])
        (parent,) = (run for run in tracked if "rnnlm.comparison_key" in run.data.tags)
        nested = [run for run in tracked if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
        assert len(nested) == 4
        assert {artifact.path for artifact in client.list_artifacts(parent.info.run_id)} == {
            path.name for path in folder.iterdir()
        }


def mean_bits(found: dict[str, object], name: str) -> float:
    models = found["models"]
    assert isinstance(models, list)
    (model,) = (model for model in models if model["model"] == name)
    values = [run["test"]["bits_per_byte"] for run in model["runs"]]
    return float(sum(values) / len(values))


def test_options_of_training_are_refused_for_registered_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--corpus", "zen", "--against", "one,two", "--seeds", "2"]) == 2
    assert "--seeds is for training" in capsys.readouterr().err


def test_registered_models_are_compared_without_training(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, toy_corpus: CorpusRecord
) -> None:
    text = printed(capsys, "--corpus", str(toy_corpus.folder), "--against", f"{toy_run.run_id},{toy_run.folder}")
    lines = text.splitlines()
    assert lines[0].split() == ["model", "bits/byte", "perplexity", "tokens"]
    assert lines[1].split()[1:] == lines[2].split()[1:]  # the same model twice
    assert "no" in next(line for line in lines if "…" in line).split()[-1]
