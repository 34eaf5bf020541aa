"""The whole pipeline runs on a real Prefect server, with a real DuckDB file and a real MLflow store."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.artifacts import Artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import Artifact as StoredArtifact

from flows.command_line import main
from flows.operations.flow_runner import run_flow
from flows.operations.temporary_server import drain_prefect_workers
from flows.pipeline_flow import pipeline_flow
from rnnlm.config import STAGES, PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.display.text_layout import markdown_text
from rnnlm.errors import ConfigError, CorpusError
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.pipeline import run_pipeline
from rnnlm.registry.data_gates import GatesError
from rnnlm.registry.decision_text import unchanged_since
from rnnlm.registry.model_lookup import model_folder
from rnnlm.reports.json_values import run_value
from rnnlm.reports.pipeline_page import corpus_report, pipeline_summary
from rnnlm.storage.home import Home, read_json
from rnnlm.storage.result_records import PipelineRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.conftest import home_in, write_toy_corpus

Ran = tuple[Home, PipelineConfig, PipelineRecord]
ROOT = Path(__file__).resolve().parents[2]
FLOW_FILE, TASK_FILES = ROOT / "flows" / "pipeline_flow.py", sorted((ROOT / "tasks").glob("*.py"))
JSON_PAGE = ROOT / "docs" / "reference" / "json.md"
SETTINGS = (
    "tokenizer.kind=word",
    "tokenizer.vocabulary_size=200",
    "model.hidden_size=16",
    "training.epochs=20",
    "training.device=cpu",
    "generation.prompts=[the cat]",
    "generation.maximum_tokens=8",
    "probes.positions=true",
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, prefect_server: None) -> Iterator[Ran]:
    """Run the whole pipeline once for all tests, in an empty rnnlm home."""
    folder = tmp_path_factory.mktemp("pipeline")
    config = build_config("default", SETTINGS, str(write_toy_corpus(folder / "toy")))
    with home_in(folder) as home:
        yield home, config, run_flow(home, pipeline_flow, config=config)


def promised_keys() -> set[str]:
    """Return the keys of `rnnlm run --json` that docs/reference/json.md lists."""
    section = JSON_PAGE.read_text(encoding="utf-8").partition("\n## A run\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))))


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run the command with `--json` and return the printed value."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_a_run_leaves_five_pages_with_its_corpus_in_their_keys(ran: Ran) -> None:
    record = ran[2]
    kinds = {"data": "markdown", "training": "progress", "perplexity": "table", "model": "markdown"}
    for page, kind in {**kinds, "summary": "markdown"}.items():
        artifact = shown(f"toy-{page}")
        assert artifact.type == kind, page
        assert artifact.flow_run_id is not None, page
        assert artifact.description, page
    data = str(shown("toy-data").data)
    assert data.startswith(corpus_report(record.corpus))
    for part in ("## Tokenizer", "## Sequences", "## Dataset"):
        assert part in data
    model = str(shown("toy-model").data)
    for part in ("## Training", "## Where the model is surprised", "## Gradient flow", "## Right guesses by position"):
        assert part in model
    assert model.count("data:image/png;base64,iVBOR") >= 2
    table = shown("toy-perplexity")
    assert json.loads(str(table.data)) == score_rows(record.evaluation)
    assert table.description == "Perplexity next to the baselines"


@pytest.mark.long
def test_the_summary_tells_the_result_the_decision_and_where_to_look(ran: Ran) -> None:
    record = ran[2]
    summary, test = str(shown("toy-summary").data), record.evaluation.scores["test"]
    assert summary.startswith(f"## toy · default: new champion, test perplexity {test.perplexity:.2f}, ")
    assert "`rnnlm-toy` version 1 is **champion**: there was no champion before it" in summary
    assert "data:image/png;base64,iVBOR" in summary
    assert "**the cat**" in summary
    assert f"/runs/{record.run.mlflow_run_id}?" in summary
    assert "/#/models/rnnlm-toy/versions/1?" in summary
    assert "(/artifacts/key/toy-summary)" in summary
    assert str(record.run.folder) not in summary
    # The toy corpus has so few different sentences that the same sentences occur in several splits.
    (copied,) = record.score_warnings
    assert "text also occurs in the training text, line by line" in copied
    assert f"**Warning: {markdown_text(copied)}.**" in summary
    assert "\nwarning    " in pipeline_summary(record)


@pytest.mark.long
def test_training_has_shown_its_progress_with_a_link_to_mlflow(ran: Ran) -> None:
    progress = shown("toy-training")
    assert float(str(progress.data)) == 100.0
    assert re.fullmatch(r"training: done · \[MLflow run\]\(.+/runs/[0-9a-f]{32}\?.+\)", str(progress.description))
    assert f"/runs/{ran[2].run.mlflow_run_id}?" in str(progress.description)


@pytest.mark.long
def test_all_stages_are_tasks_of_one_run_with_readable_names_and_tags(ran: Ran) -> None:
    """All stages are tasks of one flow run with a readable name and tags. Its page in the UI shows every log line."""
    # The server also has the runs of other tests, so the id of this run is read from the artifact.
    identity = UUID(str(shown("toy-summary").flow_run_id))
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(identity)
        inside = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[identity])))
    tasks = {task.name for task in inside}
    assert re.fullmatch(r"toy · default · \d{1,2} \w{3} \d\d:\d\d( \(\d\))?", run.name)
    assert set(run.tags) == {"toy", "default", "promoted"}
    assert {"download toy", "train 1x16 on toy", "evaluate on toy", "register toy"} <= tasks
    assert not [name for name in tasks if "/" in name or re.search("[0-9a-f]{12}", name)]


@pytest.mark.long
def test_an_unchanged_night_says_so_and_publishes_nothing_twice(
    ran: Ran, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    home, config, first = ran
    pages = {page: shown(f"toy-{page}").id for page in ("data", "training", "perplexity", "model")}
    again = run_flow(home, pipeline_flow, config=config)
    since = unchanged_since(first)
    assert re.fullmatch(r"unchanged since \d{1,2} \w{3} \d\d:\d\d", since)
    assert again.is_unchanged
    with get_client(sync_client=True) as client:
        assert [run.name for run in client.read_flow_runs() if set(run.tags) == {"toy", "default", "unchanged"}]
    assert f"toy: {since}, nothing to do" in caplog.text
    assert f"done       nothing: {since}" in pipeline_summary(again)
    assert {page: shown(f"toy-{page}").id for page in pages} == pages
    summary = str(shown("toy-summary").data)
    assert summary.startswith(f"## toy · default: {since}")
    assert re.search(r"\| corpus \| skipped: unchanged since \d{1,2} \w{3} \d\d:\d\d \|", summary)
    assert "data:image/png" not in summary
    assert again.registered.version == first.registered.version
    with reaching_mlflow(home) as client:
        assert len(client.search_model_versions("name = 'rnnlm-toy'")) == 1
        experiment = client.get_experiment_by_name("rnnlm")
        assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
        view = json.loads(experiment.tags["mlflow.sharedViewState.rnnlm"])
        columns = [column.partition(".")[2].strip("`") for column in view["selectedColumns"]]
        [run] = client.search_runs([experiment.experiment_id])
        assert {"test_perplexity", "test_bits_per_byte"} <= set(columns) & set(run.data.metrics)


def shown(key: str) -> StoredArtifact:
    """Return Prefect's latest artifact with the key `key`."""
    artifact = Artifact.get(key)
    assert isinstance(artifact, StoredArtifact), key
    return artifact


def calls_in_order(path: Path, *functions: str) -> list[str]:
    """Return the names of all functions that the given functions of a file call, in textual order.

    For `a.b()`, the name is b.
    """
    found = {node.name: node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}
    calls = [node for name in functions for node in ast.walk(found[name]) if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.func.end_lineno, call.func.end_col_offset))
    return [ast.unparse(call.func).rpartition(".")[2] for call in calls]


def stages_called(path: Path, *functions: str) -> list[str]:
    """Return the names of the tasks that functions of flows/pipeline_flow.py call."""
    tasks = {name for file in TASK_FILES for name in tasks_in(file)}
    return [name for name in calls_in_order(path, *functions) if name in tasks]


def tasks_in(file: Path) -> list[str]:
    return re.findall(r"^@task\((?:.|\n)*?^def (\w+)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_docstring_lists_the_stages_in_order() -> None:
    """The docstring of pipeline_flow.py lists the stages in the order of the code."""
    introduction = ast.get_docstring(ast.parse(FLOW_FILE.read_text(encoding="utf-8")), clean=False)
    listed = re.findall(r"^.{16} (\w+) {2,}\w", str(introduction), flags=re.MULTILINE)
    assert len(listed) == 14
    assert listed == stages_called(FLOW_FILE, "prepare", "train", "evaluate_and_register", "publish_summary")


def test_the_flow_has_the_order_of_the_plain_pipeline() -> None:
    """The flow calls the same functions in the same order as rnnlm/pipeline.py. In addition, the flow raises events."""
    plain = calls_in_order(ROOT / "rnnlm" / "pipeline.py", "prepare_data", "train_and_register")
    stage_of = {
        task: [name for name in calls_in_order(file, task) if name in plain]
        for file in TASK_FILES
        for task in tasks_in(file)
    }
    flow = stages_called(FLOW_FILE, "prepare", "train", "evaluate_and_register")
    assert [task for task in flow if not stage_of[task]] == ["raise_events"]
    stages = [stage for task in flow for stage in stage_of[task]]
    assert [name for name in plain if name in stages] == stages


@pytest.mark.long
def test_the_plain_pipeline_finds_all_that_the_flow_has_stored(ran: Ran) -> None:
    home, config, first = ran
    record = run_pipeline(home, config)
    assert [stage for stage, of_stage in record.stages.items() if not of_stage.skipped] == []
    assert (record.run.run_id, record.evaluation.scores) == (first.run.run_id, first.evaluation.scores)
    assert record.registered.version == first.registered.version


@pytest.mark.long
def test_the_chain_ends_in_a_champion_and_then_skips(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    home, config, first = ran
    facts = run_value(first, first.dataset)
    assert len(promised_keys()) > 20
    assert set(facts) >= promised_keys()
    assert (facts["model_name"], facts["model_version"], facts["alias"]) == ("rnnlm-toy", 1, "champion")
    assert facts["skipped"] == []
    assert list(facts["seconds"]) == list(STAGES)
    assert facts["train_tokens"] == 300 * 10  # Each line has nine words and <eos>.
    assert facts["test_perplexity"] < facts["unigram_perplexity"] < facts["uniform_perplexity"]
    assert facts["unknown_rate"] == 0.0

    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    second = answer(capsys, "run", "--corpus", config.corpus.source, *settings)
    assert second["skipped"] == list(STAGES)
    for key in promised_keys() - {"skipped", "seconds"}:
        assert second[key] == facts[key], key

    forced = run_flow(home, pipeline_flow, config=config.model_copy(update={"force": ("evaluation",)}))
    assert run_value(forced, forced.dataset)["skipped"] == [name for name in STAGES if name != "evaluation"]

    summary = pipeline_summary(forced)
    assert "rnnlm-toy version 1 as champion" in summary
    assert f"{facts['test_perplexity']:.2f}" in summary
    network = forced.evaluation.scores["test"].network
    assert ("mixed with" in summary) == (network is not None)
    champion = model_folder(home, "models:/rnnlm-toy@champion")
    # Training stored this file, and registration copied it to the version.
    assert (champion / "reference" / "line.parquet").is_file()


@pytest.mark.long
def test_commands_work_on_the_registered_model(
    ran: Ran, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    config, facts = ran[1], run_value(ran[2], ran[2].dataset)
    corpus = config.corpus.source
    (listed,) = answer(capsys, "models")
    assert (listed["model_name"], listed["model_version"], listed["aliases"]) == ("rnnlm-toy", 1, ["champion"])
    assert listed["validation_perplexity"] == pytest.approx(facts["validation_perplexity"])
    assert listed["dataset_id"] == facts["dataset_id"]
    assert listed["created"]

    for model in ("models:/rnnlm-toy@champion", "models:/rnnlm-toy/1", facts["run_folder"]):
        score = answer(capsys, "evaluate", model, "--corpus", corpus)
        assert score["perplexity"] == pytest.approx(facts["test_perplexity"], rel=1e-5)
        assert score["bits_per_byte"] == pytest.approx(facts["bits_per_byte"], rel=1e-5)
        assert score["tokens"] == 40 * 10

    (tmp_path / "other.txt").write_bytes(b"the cat sees the dog near the tree .\n" * 3)
    score = answer(capsys, "evaluate", "models:/rnnlm-toy@champion", "--corpus", str(tmp_path / "other.txt"))
    assert (score["split"], score["tokens"]) == ("all", 30)

    generate = ("generate", "models:/rnnlm-toy@champion", "--seed", "3", "--prompt")
    first = answer(capsys, *generate, "the cat")
    assert first == answer(capsys, *generate, "the cat")
    assert 1 <= first["tokens"] <= 40

    assert main([*generate, "zebra crossing"]) == 0
    assert capsys.readouterr().out.strip()
    assert "zebra" in caplog.text


@pytest.mark.long
def test_other_seeds_are_trained_scored_and_not_registered(ran: Ran) -> None:
    home, config, first = ran
    record = run_flow(home, pipeline_flow, config=config, seeds=2)
    assert record.seeds is not None
    assert record.seeds.run_ids[0] == record.run.run_id == first.run.run_id
    settings = [read_json(home.runs / name / "config.json") or {} for name in record.seeds.run_ids]
    assert [one["training"].pop("seed") for one in settings] == [config.training.seed, config.training.seed + 1]
    assert settings[0] == settings[1]
    test = record.seeds.scores[-1]
    assert test.perplexities[0] == first.evaluation.scores["test"].perplexity != test.perplexities[1]
    assert test.mean_perplexity == sum(test.perplexities) / 2
    assert record.registered.version == first.registered.version
    assert "\n\n2 seeds\n  split  model" in pipeline_summary(record)
    assert run_value(record, record.dataset)["seeds"]["run_ids"] == record.seeds.run_ids
    again = run_flow(home, pipeline_flow, config=config, seeds=2)
    assert again.seeds == record.seeds


@pytest.mark.long
def test_several_seeds_refuse_to_continue_from_a_champion(ran: Ran) -> None:
    home, config, _ = ran
    warm = config.model_copy(update={"training": config.training.model_copy(update={"start_from": "champion"})})
    with pytest.raises(ConfigError, match="seeds must start from random weights"):
        run_flow(home, pipeline_flow, config=warm, seeds=2)


@pytest.mark.long
def test_a_night_that_gates_stop_has_a_red_task_and_its_pages(
    tracked_home: Home, tmp_path: Path, prefect_server: None
) -> None:
    settings = (*SETTINGS, "gates.leakage_stop_at=0", "gates.duplicates_stop_at=0")
    config = build_config("default", settings, str(write_toy_corpus(tmp_path / "copied")))
    with pytest.raises(GatesError) as raised:
        pipeline_flow(config=config)
    summary = shown("copied-summary")
    assert "stopped, the champion stays" in str(summary.data)
    assert summary.flow_run_id == shown("copied-data").flow_run_id is not None
    identity = UUID(str(summary.flow_run_id))
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(identity)
        inside = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[identity])))
    states = {task.name: task.state for task in inside if task.state is not None}
    assert {name for name, state in states.items() if not state.is_completed()} == {"check copied"}
    assert "tell automations" in states
    for state in (states["check copied"], run.state):
        assert state is not None
        assert state.is_failed()
        assert str(raised.value) in str(state.message)
        assert "gates.duplicates_stop_at and gates.leakage_stop_at" in str(state.message)


@pytest.mark.long
def test_a_users_error_is_the_state_of_a_tagged_run(tracked_home: Home, tmp_path: Path, prefect_server: None) -> None:
    config = PipelineConfig.model_validate({"corpus": {"source": str(tmp_path / "missing-text.txt")}})
    with pytest.raises(CorpusError, match="missing-text") as raised:
        pipeline_flow(config=config)
    with get_client(sync_client=True) as client:
        [run] = [one for one in client.read_flow_runs() if one.name.startswith("missing-text · default · ")]
        assert set(run.tags) == {"missing-text", "default"}
        assert run.state is not None
        assert (run.state.type.value, run.state.message) == ("FAILED", str(raised.value))
        drain_prefect_workers(seconds=10)  # Wait for the threads that send the log.
        logged = [log.message for log in client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])))]
    assert str(raised.value) in logged
    assert not [line for line in logged if "Traceback" in line]
