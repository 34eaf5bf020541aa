import math
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from rnnlm.config import EvaluationConfig, GenerationConfig, PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.measurements import Measured, ModelMeasurement, measurements
from rnnlm.storage.home import Home
from rnnlm.storage.records import LOSSES, CorpusRecord, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.tracking.mlflow_runs import open_tracker
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.evaluation import evaluate_perplexity, log_results, measure_model, sample_run

PREDICTABLE = 15  # The number of tokens in the toy vocabulary without <pad> and <bos>.
TEST_TOKENS = 400  # The number of tokens in the test split: 40 lines of nine words and <eos>.


@pytest.fixture
def uniform_run(toy_run: RunRecord) -> RunRecord:
    """Return the toy run with all weights set to 0, so that each token has the probability 1 / PREDICTABLE."""
    weights = toy_run.model_folder / "model.safetensors"
    save_file({name: tensor.zero_() for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    return toy_run


def test_uniform_network_has_the_perplexity_of_its_vocabulary(
    uniform_run: RunRecord, toy_dataset: DatasetRecord, toy_corpus: CorpusRecord
) -> None:
    record = evaluate_perplexity.fn(toy_dataset, uniform_run, EvaluationConfig(), force=True)
    score = record.scores["test"]
    assert (score.tokens, score.unknown_rate, record.skipped) == (TEST_TOKENS, 0.0, False)
    assert score.network is not None
    assert score.network.perplexity == pytest.approx(PREDICTABLE, rel=1e-6)
    assert score.uniform_perplexity == PREDICTABLE
    byte_count = (toy_corpus.folder / "test.txt").stat().st_size
    bits = TEST_TOKENS * math.log2(PREDICTABLE)
    # Each of the 40 lines has less than 0.2 additional bits for its spaces.
    assert 0 <= score.network.bits_per_byte * byte_count - bits < 40 * 0.2
    # The main values are those of the mixture of network and n-gram model.
    assert score.nll_nats_per_token == pytest.approx(math.log(score.perplexity))
    again = evaluate_perplexity.fn(toy_dataset, uniform_run, EvaluationConfig())
    assert (again.skipped, again.scores) == (True, record.scores)


@pytest.mark.long
def test_extensions_measure_a_model_and_a_failure_is_theirs(
    toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    def measure(home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, force: bool) -> Measured:
        if force:
            raise ModelError(f"{run.run_id}: no figures")
        return Measured(f"{dataset.corpus_name}, {config.model.units} units", (run.folder / "figures.png",))

    measurement = ModelMeasurement("figures", measure)
    measured = measure_model.fn(measurement, toy_config, toy_dataset, toy_run)
    assert measured == Measured("toy, 16 units", (toy_run.folder / "figures.png",))
    with pytest.raises(ModelError, match="no figures"):
        measure_model.fn(measurement, toy_config, toy_dataset, toy_run, force=True)
    for one in measurements(toy_config, toy_run):  # The loop runs the measurements of all extensions in this checkout.
        assert isinstance(measure_model.fn(one, toy_config, toy_dataset, toy_run), Measured)


def test_prompts_are_continued_once_with_consecutive_seeds(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    config = GenerationConfig(prompts=("the cat", "the fox"), maximum_tokens=3, seed=5)
    record = sample_run.fn(toy_dataset, toy_run, config)
    assert [(sample.prompt, sample.seed) for sample in record.samples] == [("the cat", 5), ("the fox", 6)]
    for sample in record.samples:
        assert sample.whole.startswith(f"{sample.prompt} ")
        assert 1 <= sample.tokens <= 3
    again = sample_run.fn(toy_dataset, toy_run, config)
    assert (again.skipped, again.samples) == (True, record.samples)
    assert sample_run.fn(toy_dataset, toy_run, config, force=True).samples == record.samples


@pytest.mark.long
def test_results_are_in_the_run_and_its_address_is_returned(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    losses_folder = toy_run.folder / LOSSES
    losses_folder.mkdir(exist_ok=True)
    (losses_folder / "tokens.parquet").write_bytes(b"losses")
    with open_tracker(tracked_home, toy_config, toy_dataset, toy_run.run_id) as tracker:
        pass
    run = toy_run.model_copy(update={"mlflow_run_id": tracker.mlflow_run_id})
    picture = toy_run.folder / "gradient_flow.png"
    picture.write_bytes(b"a picture")
    for _ in range(2):
        logged = log_results.fn(run, toy_evaluation, toy_samples, (picture,))
    assert logged.loss_curve == toy_run.folder / "loss_curve.png"
    assert logged.run_url is not None
    assert logged.run_url.endswith(f"/runs/{tracker.mlflow_run_id}?workflowType=machine_learning")
    assert logged.run_list_url is not None
    assert logged.run_list_url.endswith("/runs?viewStateShareKey=rnnlm&workflowType=machine_learning")
    assert logged.small_loss_curve is not None
    assert logged.small_loss_curve.read_bytes().startswith(b"\x89PNG")
    # The curve must be small, because every nightly run adds one to Prefect's database.
    assert logged.small_loss_curve.stat().st_size < 40_000
    with reaching_mlflow(tracked_home) as client:
        metrics = client.get_run(tracker.mlflow_run_id).data.metrics
        names = [artifact.path for artifact in client.list_artifacts(tracker.mlflow_run_id)]
        losses = {Path(artifact.path).name for artifact in client.list_artifacts(tracker.mlflow_run_id, "losses")}
    assert metrics["test_perplexity"] == toy_evaluation.scores["test"].perplexity
    assert sorted(names) == ["gradient_flow.png", "loss_curve.png", "losses", "samples", "samples.json", "samples.md"]
    assert losses == {"tokens.parquet"}


def test_mlflow_away_leaves_the_loss_curve(
    home: Home,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = toy_run.model_copy(update={"mlflow_run_id": "0" * 32})
    logged = log_results.fn(run, toy_evaluation, toy_samples)
    assert logged.run_url is None
    assert logged.loss_curve is not None
    assert logged.loss_curve.exists()
