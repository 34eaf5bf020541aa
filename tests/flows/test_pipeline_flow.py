"""The chain as a whole, on a real Prefect server, a real DuckDB file and a real MLflow store."""

import pytest
from prefect.artifacts import Artifact

from flows.operations.running import run_flow
from flows.pipeline_flow import pipeline_flow
from rnnlm.config import STAGES, PipelineConfig, ProbesConfig
from rnnlm.home import Home
from rnnlm.reports.pipeline import pipeline_json, pipeline_summary

pytestmark = pytest.mark.usefixtures("prefect_server")
PROMISED_KEYS = {
    "run_id",
    "corpus",
    "dataset_id",
    "model_name",
    "model_version",
    "alias",
    "skipped",
    "train_tokens",
    "validation_perplexity",
    "test_perplexity",
    "bits_per_byte",
    "unknown_rate",
    "uniform_perplexity",
    "unigram_perplexity",
    "samples",
    "seconds",
}


def test_the_chain_ends_in_a_registered_champion_and_skips_itself_the_second_time(
    home: Home, toy_config: PipelineConfig
) -> None:
    first = run_flow(home, pipeline_flow, toy_config)
    facts = pipeline_json(first)
    assert set(facts) >= PROMISED_KEYS
    assert (facts["model_name"], facts["model_version"], facts["alias"]) == ("rnnlm-toy", 1, "champion")
    assert facts["skipped"] == []
    assert list(facts["seconds"]) == list(STAGES)
    assert facts["train_tokens"] == 300 * 10  # nine words and <eos> a line
    assert facts["test_perplexity"] < facts["unigram_perplexity"] < facts["uniform_perplexity"]
    assert facts["unknown_rate"] == 0.0

    second = run_flow(home, pipeline_flow, toy_config)
    assert pipeline_json(second)["skipped"] == list(STAGES)
    for key in PROMISED_KEYS - {"skipped", "seconds"}:
        assert pipeline_json(second)[key] == facts[key], key

    forced = run_flow(home, pipeline_flow, toy_config.model_copy(update={"force": ("evaluation",)}))
    assert pipeline_json(forced)["skipped"] == [name for name in STAGES if name != "evaluation"]

    summary = pipeline_summary(second)
    assert "rnnlm-toy version 1 as champion" in summary
    assert f"{facts['test_perplexity']:.2f}" in summary


def test_every_stage_leaves_its_report_on_the_run(home: Home, toy_config: PipelineConfig) -> None:
    probes = ProbesConfig(positions=True)
    run_flow(home, pipeline_flow, toy_config.model_copy(update={"probes": probes}))
    kinds = {
        "corpus": "markdown",
        "tokenizer": "markdown",
        "sequences": "markdown",
        "training": "markdown",
        "perplexity": "table",
        "surprise": "markdown",
        "gradient-flow": "markdown",
        "positions": "markdown",
        "samples": "markdown",
        "loss-curve": "markdown",
        "mlflow-run": "markdown",  # Prefect stores a link as markdown
        "registration": "markdown",
    }
    for key, kind in kinds.items():
        artifact = Artifact.get(key)
        assert artifact is not None, key
        assert artifact.type == kind, key
        assert artifact.flow_run_id is not None, key
    for key in ("loss-curve", "gradient-flow", "positions"):
        shown = Artifact.get(key)
        assert shown is not None
        assert "data:image/png;base64,iVBOR" in str(shown.data)
