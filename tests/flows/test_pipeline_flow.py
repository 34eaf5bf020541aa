"""The chain as a whole, on a real Prefect server, a real DuckDB file and a real MLflow store."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.artifacts import Artifact

from flows.operations.flow_runner import run_flow
from flows.pipeline_flow import pipeline_flow
from rnnlm.config import STAGES, PipelineConfig, ProbesConfig
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.home import Home
from rnnlm.records import PipelineRecord
from rnnlm.reports.pipeline_page import corpus_report, pipeline_json, pipeline_summary
from tests.conftest import home_in, toy_pipeline_config, write_toy_corpus

Ran = tuple[Home, PipelineConfig, PipelineRecord]
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


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, prefect_server: None) -> Iterator[Ran]:
    """The whole chain in an empty home, once for all tests."""
    folder = tmp_path_factory.mktemp("pipeline")
    config = toy_pipeline_config(write_toy_corpus(folder / "toy"))
    config = config.model_copy(update={"probes": ProbesConfig(positions=True)})
    with home_in(folder) as home:
        yield home, config, run_flow(home, pipeline_flow, config)


def test_every_stage_leaves_its_report_on_the_run(ran: Ran) -> None:
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
        artifact = shown(key)
        assert artifact.type == kind, key
        assert artifact.flow_run_id is not None, key
    for key in ("loss-curve", "gradient-flow", "positions"):
        assert "data:image/png;base64,iVBOR" in str(shown(key).data)
    record = ran[2]
    assert shown("corpus").data == corpus_report(record.corpus)
    table = shown("perplexity")
    assert json.loads(str(table.data)) == score_rows(record.evaluation)
    assert table.description == "Perplexity beside the baselines"
    link = re.fullmatch(r"\[The run in MLflow\]\((.+)\)", str(shown("mlflow-run").data))
    assert link is not None
    assert link[1].endswith(f"/runs/{record.run.mlflow_run_id}")


def shown(key: str) -> Artifact:
    """The latest artifact under the key."""
    artifact = Artifact.get(key)
    assert artifact is not None, key
    return artifact


def test_the_list_of_stages_in_the_docstring_is_the_order_of_the_calls() -> None:
    """pipeline_flow.py is the file to read first: what it says is what it does."""
    source = Path(inspect.getfile(pipeline_flow.fn)).read_text(encoding="utf-8")
    tasks = set(re.findall(r"^from tasks\.(\w+) import", source, flags=re.MULTILINE))
    listed = re.findall(r"^.{17}(\w+)  +\w", source.partition("\nfrom prefect")[0], flags=re.MULTILINE)
    called = [name for name in re.findall(r"\b(\w+)\(", source.partition("@flow")[2]) if name in tasks]
    assert listed == called
    assert set(listed) == tasks


def test_the_chain_ends_in_a_registered_champion_and_skips_itself_the_second_time(ran: Ran) -> None:
    home, config, first = ran
    facts = pipeline_json(first)
    assert set(facts) >= PROMISED_KEYS
    assert (facts["model_name"], facts["model_version"], facts["alias"]) == ("rnnlm-toy", 1, "champion")
    assert facts["skipped"] == []
    assert list(facts["seconds"]) == list(STAGES)
    assert facts["train_tokens"] == 300 * 10  # nine words and <eos> a line
    assert facts["test_perplexity"] < facts["unigram_perplexity"] < facts["uniform_perplexity"]
    assert facts["unknown_rate"] == 0.0

    second = run_flow(home, pipeline_flow, config)
    assert pipeline_json(second)["skipped"] == list(STAGES)
    for key in PROMISED_KEYS - {"skipped", "seconds"}:
        assert pipeline_json(second)[key] == facts[key], key

    forced = run_flow(home, pipeline_flow, config.model_copy(update={"force": ("evaluation",)}))
    assert pipeline_json(forced)["skipped"] == [name for name in STAGES if name != "evaluation"]

    summary = pipeline_summary(second)
    assert "rnnlm-toy version 1 as champion" in summary
    assert f"{facts['test_perplexity']:.2f}" in summary
