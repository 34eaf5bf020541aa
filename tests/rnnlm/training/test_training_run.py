"""A run's folder is complete and reproducible. A second call finds the finished run."""

import json
import logging
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.baselines import baselines
from rnnlm.evaluation.batch_losses import nll_of_batches
from rnnlm.models import devices
from rnnlm.models.model_factory import load_model
from rnnlm.pipeline import run_pipeline
from rnnlm.registry.model_lookup import corpus_settings, model_folder
from rnnlm.registry.registry_version import read_version
from rnnlm.registry.version_tags import source_facts
from rnnlm.sequences.tuning_sample import TuningSample
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.stages import is_complete, mark_complete
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.samples import write_samples
from rnnlm.training.seeding import seed_everything
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import UntrackedRun, untracked


class Listener(UntrackedRun):
    mlflow_run_id = "of-mlflow"
    called = flushed = 0

    def __call__(self) -> None:
        self.called += 1

    def flush(self) -> None:
        self.flushed += 1


@pytest.mark.long
def test_a_run_leaves_model_history_and_marker(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rnnlm")
    config = changed(toy_config, {"training.seed": 5})
    listener = Listener()
    run = run_training(home, config, toy_dataset, listener.open, write_samples=write_samples)
    assert is_complete(run.folder)
    assert (run.mlflow_run_id, run.trained_tokens, run.skipped) == ("of-mlflow", 3000, False)
    history = [json.loads(line) for line in (run.folder / "history.jsonl").read_text().splitlines()]
    assert [line["step"] for line in history if line["kind"] == "training"] == list(range(1, 11))
    assert (listener.called, listener.flushed) == (len(history) + config.training.validation.evaluations, 1)
    scored = [
        line["metrics"]["validation_perplexity"] for line in history if "validation_perplexity" in line["metrics"]
    ]
    assert len(scored) == config.training.validation.evaluations
    assert run.best_validation_perplexity == min(scored)
    # The logged perplexity was measured on a sample, because training validates on a third of the split.
    validated = [line for line in caplog.messages if "validation perplexity" in line]
    assert validated
    assert all("sampled validation perplexity" in line for line in validated)
    pages = sorted((run.folder / "samples").iterdir())
    assert [page.name for page in pages] == ["step-00000003.md", "step-00000006.md", "step-00000010.md"]
    assert pages[0].read_text().startswith("prompt: `the cat`")
    assert not (run.folder / "checkpoints").exists()
    assert json.loads((run.folder / "config.json").read_text()) == config.model_dump(mode="json")


@pytest.mark.long
def test_a_relative_source_is_stored_as_the_text_that_was_read(
    tracked_home: Home, toy_config: PipelineConfig, toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative source is stored as an absolute path.

    The stored settings are read later in other folders, where the relative path may lead to another text.
    """
    other = toy_folder.parent / "elsewhere" / toy_folder.name
    other.mkdir(parents=True)
    (other / "train.txt").write_text("quite another text\n" * 99, encoding="utf-8")
    monkeypatch.chdir(toy_folder.parent)
    config = changed(toy_config, {"corpus.source": toy_folder.name, "registry.model_name": "rnnlm-relative"})
    record = run_pipeline(tracked_home, config)
    monkeypatch.chdir(other.parent)
    stored = {
        "run": json.loads((record.run.folder / "config.json").read_text())["corpus"]["source"],
        "version": corpus_settings(model_folder(tracked_home, "rnnlm-relative"))["source"],
    }
    with reaching_mlflow(tracked_home) as client:
        assert record.run.mlflow_run_id is not None
        stored["MLflow"] = client.get_run(record.run.mlflow_run_id).data.params["corpus.source"]
        settings = json.loads(read_version(client, "rnnlm-relative", 1).facts["configuration"])
        stored["the version's tag"] = settings["corpus"]["source"]
    assert stored == dict.fromkeys(stored, str(toy_folder.resolve()))
    again = PipelineConfig.model_validate(json.loads((record.run.folder / "config.json").read_text()))
    assert obtain_corpus(tracked_home, again.corpus).digest == record.corpus.digest
    assert source_facts(tracked_home, again.corpus)["corpus_source"] == str(toy_folder.resolve())


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [{"training.loss.kind": "sampled", "training.loss.sampled_classes": 8}, {"training.precision": "bfloat16"}, {}],
)
def test_every_loss_trains_a_model_with_a_low_exact_perplexity(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    settings: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "has_native_bfloat16", lambda: True)
    config = changed(toy_config, {"training.epochs": 3, **settings})
    run = run_training(home, config, toy_dataset, untracked)
    assert run.best_validation_perplexity < 0.7 * baselines(toy_dataset, "valid").unigram_perplexity


@pytest.mark.parametrize("native", [True, False])
def test_bfloat16_is_computed_only_where_the_processor_multiplies_it(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    native: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """bfloat16 is used only if the processor multiplies such numbers in hardware.

    On other CPUs, bfloat16 would take many times as long as float32.
    """
    monkeypatch.setattr(devices, "has_native_bfloat16", lambda: native)
    caplog.set_level(logging.INFO, "rnnlm")
    exact, rounded = (
        run_training(home, changed(toy_config, {"training.precision": precision}), toy_dataset, untracked)
        for precision in ("float32", "bfloat16")
    )
    weights = [(run.model_folder / "model.safetensors").read_bytes() for run in (exact, rounded)]
    assert exact.run_id != rounded.run_id
    assert (weights[0] == weights[1]) is not native
    assert any("in float32" in line for line in caplog.messages) is not native


def test_the_same_run_is_skipped_without_a_tracker(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    def never(run_id: str) -> None:
        raise AssertionError("a skipped run opens no tracker")

    again = run_training(home, toy_config, toy_dataset, never)  # type: ignore[arg-type]
    assert (again.skipped, again.run_id, again.folder) == (True, toy_run.run_id, toy_run.folder)


def test_the_same_seed_gives_the_same_weights_bit_by_bit(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    before = (toy_run.model_folder / "model.safetensors").read_bytes()
    run_training(home, toy_config, toy_dataset, untracked, force=True)
    assert (toy_run.model_folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("force", [False, True])
def test_a_finished_run_stays_until_its_replacement_is_complete(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    caplog: pytest.LogCaptureFixture,
    force: bool,
) -> None:
    weights = (toy_run.model_folder / "model.safetensors").read_bytes()
    if not force:
        (toy_run.folder / "history.jsonl").write_text("")

    @contextmanager
    def fail(run_id: str) -> Iterator[Listener]:
        raise RuntimeError("simulated power failure")
        yield

    with pytest.raises(RuntimeError):
        run_training(home, toy_config, toy_dataset, fail, force=force)
    kept = toy_run.folder.with_name(f".{toy_run.run_id}.replaced")
    assert (kept / "model" / "model.safetensors").read_bytes() == weights
    assert ("history.jsonl differs from its sha256, so the run is trained again" in caplog.text) is not force
    assert not run_training(home, toy_config, toy_dataset, untracked).skipped
    assert not kept.exists()
    assert (toy_run.model_folder / "model.safetensors").read_bytes() == weights


@pytest.mark.long
def test_validation_uses_a_sample_of_bounded_size(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    found = {}
    for tokens in (None, 100):
        config = changed(toy_config, {"training.validation.tokens": tokens})
        run = run_training(home, config, toy_dataset, untracked)
        sample = TuningSample(toy_dataset, tokens)
        network = load_model(run.model_folder)
        nats, count = nll_of_batches(network, sample.batches(64))
        assert run.best_validation_perplexity == pytest.approx(math.exp(nats / count), rel=1e-6)
        found[tokens] = sample.predicted_count
    assert found == {None: 160, 100: 100}


@pytest.mark.parametrize("bias", ["zero", "unigram"])
def test_a_zero_bias_with_the_sampled_loss_gives_a_warning(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    caplog: pytest.LogCaptureFixture,
    bias: str,
) -> None:
    sampled = {"training.loss.kind": "sampled", "training.loss.sampled_classes": 8, "training.epochs": 1}
    run_training(home, changed(toy_config, {**sampled, "model.head_bias": bias}), toy_dataset, untracked)
    assert ("set model.head_bias=unigram" in caplog.text) == (bias == "zero")


def test_an_older_run_whose_marker_names_sample_pages_is_complete(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    # Other tests use the run, so the marker is written again. It includes the pages.
    mark_complete(toy_run.folder)
    next((toy_run.folder / "samples").iterdir()).write_text("I like this one")
    assert run_training(home, toy_config, toy_dataset, untracked).skipped


def test_seeds_cover_python_numpy_and_torch() -> None:
    def draw() -> tuple[float, float, float]:
        seed_everything(7, deterministic=True)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    try:
        assert draw() == draw()
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
