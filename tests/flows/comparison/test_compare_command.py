"""`rnnlm compare` with real training runs of several kinds, on a real Prefect server with a real MLflow store."""

import errno
import json
import os
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from prefect.artifacts import Artifact

from flows.command_line import main
from rnnlm.models.min_gru import MinGRUCell
from rnnlm.storage.home import Home
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
    assert lines[0].split()[:2] == ["model", "test"]
    assert {line.split()[0] for line in lines[2:5]} == {"Elman", "minGRU", "Kneser-Ney"}
    assert max(map(len, lines[:-1])) <= 80
    runs = sorted(tracked_home.runs.glob("*/COMPLETE"))
    # Each of two kinds has two short trials, the same two trials on all tokens, and one run with the second seed.
    assert len(runs) == 2 * (2 + 2 + 1)

    found = json.loads(printed(capsys, "--corpus", str(toy_folder), *SMALL, "--json"))
    assert found["skipped"]
    assert sorted(tracked_home.runs.glob("*/COMPLETE")) == runs
    seeds = {model["model"]: len(model["runs"]) for model in found["models"]}
    assert seeds == {"elman": 2, "min-gru": 2, "kneser-ney": 1}
    assert len(found["pairs"]) == 3
    best, second = found["pairs"][0]["first"], found["pairs"][0]["second"]
    assert [best, second] == [model["model"] for model in found["models"][:2]]
    for model in found["models"]:
        trials = {trial["final_perplexity"]: trial["settings"] for trial in model["trials"]}
        assert model["settings"] == (trials[min(trials)] if trials else None)
    difference = mean_bits(found, best) - mean_bits(found, second)
    assert found["pairs"][0]["difference"] == pytest.approx(difference, abs=1e-6)

    folder = Path(found["folder"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<table>" in page
    assert not re.search(r'(src|href)="(?!data:)', page)  # The page loads no files from other addresses.
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


@pytest.fixture
def tiny(toy_folder: Path) -> tuple[str, ...]:
    """Return command-line options that limit each training run to a few batches of ten sentences of ten tokens."""
    settings = ("model.hidden_size=8", "training.epochs=1", "training.batch_size=10", "tokenizer.kind=word")
    return (
        *("--corpus", str(toy_folder), "--seeds", "1", "--cost-seconds", "0.1"),
        *(part for setting in settings for part in ("--set", setting)),
    )


def test_an_interrupted_comparison_resumes_at_the_next_kind(
    capsys: pytest.CaptureFixture[str],
    tracked_home: Home,
    tiny: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    prefect_server: None,
) -> None:
    """A comparison that was interrupted during the training of one kind resumes there and keeps finished runs.

    The costs were measured before the interruption, in separate processes.
    """
    models = ("--models", "elman,min-gru,gru", "--budget", "40000")
    calls: list[object] = []

    def full_disk(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return sequence(*arguments)  # type: ignore[arg-type]

    sequence = MinGRUCell.sequence
    with monkeypatch.context() as disk:
        disk.setattr(MinGRUCell, "sequence", full_disk)
        assert main(["compare", *tiny, *models]) != 0
    assert len(calls) == 4
    finished = trained_weights(tracked_home)
    assert [kind_of(path) for path in finished] == ["elman"]

    found = json.loads(printed(capsys, *tiny, *models, "--json"))
    assert {model["model"] for model in found["models"]} == {"elman", "min-gru", "gru"}
    after = trained_weights(tracked_home)
    assert sorted(map(kind_of, after)) == ["elman", "gru", "min-gru"]
    assert finished.items() <= after.items()


def trained_weights(home: Home) -> dict[Path, int]:
    """Return the modification time of the weights of each finished run."""
    return {
        marker.parent: (marker.parent / "model" / "model.safetensors").stat().st_mtime_ns
        for marker in home.runs.glob("*/COMPLETE")
    }


def kind_of(run: Path) -> str:
    return str(json.loads((run / "config.json").read_text(encoding="utf-8"))["model"]["kind"])


def test_every_model_gets_the_same_tokens_or_seconds(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, tiny: tuple[str, ...], prefect_server: None
) -> None:
    """All models are trained on the same number of tokens, or for the same number of seconds."""
    models = ("--models", "elman,min-gru", "--set", "model.hidden_size=40", "--json")
    found = json.loads(printed(capsys, *tiny, *models, "--match", "tokens", "--budget", "1000"))
    assert [model["runs"][0]["trained_tokens"] for model in found["models"]] == [1000, 1000]
    found = json.loads(printed(capsys, *tiny, *models, "--match", "seconds", "--budget", "1"))
    for model in found["models"]:
        (run,) = model["runs"]
        # The numbers may differ by half a batch of 100 tokens, and by one token for rounding.
        assert abs(run["trained_tokens"] - model["costs"]["tokens_per_second"]) <= 51
