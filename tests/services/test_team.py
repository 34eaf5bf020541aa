"""The services of deploy/compose.yaml survive kill -9: PostgreSQL, S3, two servers with logins, and two workers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from rnnlm.registry.bundle import BUNDLE
from rnnlm.registry.registry_version import facts_of
from rnnlm.storage.home import file_digest, read_json
from rnnlm.storage.shared_storage import STORED_FOLDERS
from tests.conftest import write_toy_corpus
from tests.services.compose_team import CHOSEN, DOMAIN, Team, read_lines

pytestmark = pytest.mark.services
SMALL = [
    "model.hidden_size=16",
    "tokenizer.kind=word",
    "training.device=cpu",
    "training.checkpoints.every_seconds=1",
    "sequences.processes=1",
]
EPOCHS = 40
LONG_SECONDS = 180  # The seconds that training takes on two busy cores while four servers are killed and restarted.
# The outputs of these stages are in the shared storage, where other workers find them.
SHARED = {"corpus", "tokenizer", "sequences", "training"}
SECRET_VALUE = "a-token-of-a-hub"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, postgres_programs: Path) -> Iterator[Team]:
    team = Team(tmp_path_factory.mktemp("team"), postgres_programs)
    try:
        team.start_all()
        yield team
    finally:
        team.stop_all()


def schedule(team: Team, name: str, epochs: int) -> str:
    """Create a deployment with a separate corpus on the shared volume, and return the deployment's full name."""
    corpus = write_toy_corpus(team.folder / "corpora" / name)
    # The text is changed, so that the deployment does not find another deployment's run.
    with (corpus / "train.txt").open("a", encoding="utf-8") as train:
        train.write(f"the {name} sees the river .\n")
    settings = [*SMALL, f"training.epochs={epochs}"]
    options = [part for setting in settings for part in ("--set", setting)]
    assert f"pipeline/{name}" in team.rnnlm("schedule", "--corpus", str(corpus), "--name", name, *options)
    return f"pipeline/{name}"


def trigger(team: Team, *names: str) -> None:
    for name in names:
        team.rnnlm("trigger", name)


def versions_of(team: Team, model: str) -> list[dict[str, Any]]:
    answer = httpx.get(
        f"{team.mlflow_url}/api/2.0/mlflow/model-versions/search",
        params={"filter": f"name='{model}'"},
        auth=("admin", CHOSEN["MLFLOW_AUTH_ADMIN_PASSWORD"]),
        timeout=60,
    )
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json().get("model_versions", [])
    return found


@pytest.fixture(scope="module")
def trained(team: Team) -> Team:
    """Return the services after two deployments have run at the same time.

    Each worker executes one flow run at a time.
    """
    set_secret(team, "hub-token", SECRET_VALUE)
    alpha, beta = schedule(team, "alpha", EPOCHS), schedule(team, "beta", EPOCHS)
    trigger(team, "alpha", "beta")
    team.wait_for(lambda: team.history_bytes() > 0, "training")
    assert SECRET_VALUE in {variable("HF_TOKEN", process) for process in flow_run_processes(team)}
    for deployment in (alpha, beta):
        team.wait_for(lambda one=deployment: team.state_of(one) == "COMPLETED", f"end of {deployment}")
    return team


def set_secret(team: Team, name: str, value: str) -> None:
    """Create a Secret block, and a variable of the work pool that refers to it, as docs/how-to/team.md explains."""
    kind = team.prefect("GET", "block_types/slug/secret")
    [schema] = team.prefect(
        "POST", "block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind["id"]]}}}
    )
    block = {"name": name, "block_type_id": kind["id"], "block_schema_id": schema["id"], "data": {"value": value}}
    team.prefect("POST", "block_documents/", block)
    template = team.prefect("GET", "work_pools/rnnlm")["base_job_template"]
    default = {"HF_TOKEN": f"{{{{ prefect.blocks.secret.{name} }}}}"}
    template["variables"]["properties"]["env"] = {"type": "object", "default": default}
    team.prefect("PATCH", "work_pools/rnnlm", {"base_job_template": template})


def flow_run_processes(team: Team) -> list[psutil.Process]:
    return [child for name in ("worker-1", "worker-2") for child in team.processes[name].children(recursive=True)]


def variable(name: str, process: psutil.Process) -> str:
    try:
        return process.environ().get(name, "")
    except psutil.Error:
        return ""


def test_two_workers_train_on_two_corpora_at_once_and_register_into_s3(trained: Team) -> None:
    [alpha], [beta] = trained.runs_of("pipeline/alpha"), trained.runs_of("pipeline/beta")
    assert alpha["start_time"] < beta["end_time"]
    assert beta["start_time"] < alpha["end_time"]
    stored = trained.stored_objects()
    for model in ("rnnlm-alpha", "rnnlm-beta"):
        [version] = versions_of(trained, model)
        assert version["version"] == "1"
        assert version["source"].startswith("mlflow-artifacts:/")
        weights = f"{version['source'].removeprefix('mlflow-artifacts:/')}/{BUNDLE}/model.safetensors"
        assert weights in stored
    runs = trained.mlflow_runs()
    assert [run["info"]["status"] for run in runs] == ["FINISHED", "FINISHED"]
    assert not list(trained.home.root.glob("mlflow.db*"))
    assert not list(trained.home.artifacts.glob("**/*.safetensors"))


def test_another_machine_gets_the_champion_from_the_registry(trained: Team, tmp_path: Path) -> None:
    other = tmp_path / "home"
    text = trained.rnnlm("generate", "rnnlm-alpha", "--prompt", "the cat", service="serve", home=other)
    assert text.startswith("the cat")
    assert list((other / "fetched").glob(f"*/{BUNDLE}/model.safetensors"))
    assert not (other / "runs").exists()


def test_machines_with_homes_of_their_own_share_finished_work_through_s3(trained: Team, tmp_path: Path) -> None:
    corpus = write_toy_corpus(tmp_path / "gamma")
    command = ["run", "--corpus", str(corpus), "--json", *(part for one in SMALL for part in ("--set", one))]
    keys = {name: value for name, value in trained.environment("mlflow", "mlflow").items() if name.startswith("AWS_")}
    storage = keys | {"RNNLM_STORAGE": "s3://mlflow/homes"}
    first, second = (
        json.loads(trained.rnnlm(*command, home=tmp_path / name, variables=storage)) for name in ("one", "two")
    )
    assert (SHARED & set(first["skipped"]), SHARED & set(second["skipped"])) == (set(), SHARED)
    assert second["run_id"] == first["run_id"]
    assert len(versions_of(trained, "rnnlm-gamma")) == 1
    stored = trained.stored_objects()
    fetched = [path for kind in STORED_FOLDERS for path in (tmp_path / "two" / kind).glob("*/COMPLETE")]
    assert len(fetched) == len(STORED_FOLDERS)
    for marker in fetched:
        place = f"homes/{marker.relative_to(tmp_path / 'two').parent}"
        assert stored[f"{place}/COMPLETE"] == marker.stat().st_size
        for name in read_json(marker):
            assert stored[f"{place}/{file_digest(marker)[:16]}/{name}"] == (marker.parent / name).stat().st_size


def test_the_service_answers_with_the_champion_for_those_with_the_token(trained: Team) -> None:
    trained.start("serve")
    trained.wait_until_ready("serve")
    address = f"http://127.0.0.1:{trained.ports['serve']}/generate"
    request = {"prompt": "the cat", "maximum_tokens": 4, "seed": 1}
    assert httpx.post(address, json=request, timeout=60).status_code == 401
    headers = {"Authorization": f"Bearer {CHOSEN['RNNLM_SERVE_TOKEN']}"}
    answer = httpx.post(address, json=request, headers=headers, timeout=60)
    assert answer.status_code == 200
    assert answer.json()["text"]
    trained.kill("serve")


def test_both_servers_refuse_those_without_a_password(trained: Team) -> None:
    prefect = f"{trained.prefect_api}/flow_runs/filter"
    assert httpx.post(prefect, json={}, timeout=60).status_code == 401
    assert httpx.post(prefect, json={}, auth=("team", "wrong"), timeout=60).status_code == 401
    mlflow = f"{trained.mlflow_url}/api/2.0/mlflow/experiments/search"
    for page in (mlflow, trained.mlflow_url, f"{trained.mlflow_url}/ajax-api/2.0/mlflow/experiments/search"):
        assert httpx.post(page, json={"max_results": 1}, timeout=60).status_code in (401, 405)
    assert httpx.post(mlflow, json={"max_results": 1}, auth=("admin", "password1234"), timeout=60).status_code == 401
    right = ("admin", CHOSEN["MLFLOW_AUTH_ADMIN_PASSWORD"])
    for host, code in ((f"mlflow.{DOMAIN}", 200), ("elsewhere.example.com", 403)):
        answer = httpx.post(mlflow, json={"max_results": 1}, auth=right, headers={"Host": host}, timeout=60)
        assert answer.status_code == code
    settings = httpx.get(trained.prefect_api.removesuffix("/api") + "/ui-settings", timeout=60).json()
    assert (settings["auth"], settings["api_url"]) == ("BASIC", f"https://prefect.{DOMAIN}/api")


def test_status_and_links_work_through_authentication_and_the_proxys_names(trained: Team) -> None:
    shown = trained.rnnlm("status")
    assert "night      alpha:" in shown
    assert "rnnlm-alpha" in shown
    pages = trained.prefect("POST", "artifacts/filter", {"artifacts": {"key": {"any_": ["alpha-summary"]}}})
    assert pages
    assert all(f"https://mlflow.{DOMAIN}/#/experiments/" in page["data"] for page in pages)


def test_a_pool_of_another_type_keeps_its_type_and_template(trained: Team) -> None:
    """A work pool of another type, such as Kubernetes, keeps its type and template when `rnnlm deploy` runs."""
    template = trained.prefect("GET", "work_pools/rnnlm")["base_job_template"]
    trained.run("deploy")
    assert trained.prefect("GET", "work_pools/rnnlm")["base_job_template"] == template


def test_a_run_survives_kill_minus_nine_of_each_server(trained: Team) -> None:
    team = trained
    [history] = [path for path in team.home.runs.glob("*/history.jsonl") if path.stat().st_size][:1]
    times = [line["time_milliseconds"] for line in read_lines(history) if "time_milliseconds" in line]
    seconds_per_epoch = max(times[-1] - times[0], 100) / 1000 / EPOCHS
    long = schedule(team, "long", round(LONG_SECONDS / seconds_per_epoch))
    before = {run["info"]["run_id"] for run in team.mlflow_runs()}
    known = team.history_bytes()
    trigger(team, "long")
    team.wait_for(lambda: team.history_bytes() > known, "training")
    for victim in ("postgres", "prefect", "mlflow", "s3"):
        team.kill(victim)
        reached = team.history_bytes()
        team.wait_for(lambda reached=reached: team.history_bytes() > reached, f"training without {victim}")
        team.start(victim)
        team.wait_until_ready(victim)
        reached = team.history_bytes()
        team.wait_for(lambda reached=reached: team.history_bytes() > reached, f"training after {victim}")
        assert not versions_of(team, "rnnlm-long"), f"training ended before {victim} was back"

    team.wait_for(lambda: team.state_of(long) in ("COMPLETED", "FAILED", "CRASHED"), "end", 2 * LONG_SECONDS)
    runs = team.runs_of(long)
    assert [run["state"]["type"] for run in runs] == ["COMPLETED"], runs
    [version] = versions_of(team, "rnnlm-long")
    tags = {tag["key"]: tag["value"] for tag in version["tags"]}
    assert "decision" in tags
    assert "model_sha256" in facts_of(tags)
    [new] = [run for run in team.mlflow_runs() if run["info"]["run_id"] not in before]
    assert new["info"]["status"] == "FINISHED"
    team.rnnlm("deploy")  # Run `rnnlm deploy`, which sets the final state of dead runs.
    left = team.prefect(
        "POST", "flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}
    )
    assert [run["name"] for run in left] == []
    tasks = team.prefect("POST", "task_runs/filter", {"task_runs": {"state": {"type": {"any_": ["RUNNING"]}}}})
    assert [task["name"] for task in tasks] == []
    other = team.folder / "other-home"
    assert team.rnnlm("generate", "rnnlm-long", "--prompt", "the dog", service="serve", home=other)


def test_a_killed_workers_run_is_resumed_by_another_once(trained: Team) -> None:
    team = trained
    again = schedule(team, "again", 10 * EPOCHS)
    known = team.history_bytes()
    trigger(team, "again")
    team.wait_for(lambda: team.history_bytes() > known, "training")
    [busy] = [name for name in ("worker-1", "worker-2") if team.processes[name].children(recursive=True)]
    team.kill(busy)
    team.rnnlm("deploy")  # The scheduled `settle` flow also does this every half hour.
    team.wait_for(lambda: team.state_of(again) == "COMPLETED", "resumed run")
    runs = team.runs_of(again)
    assert [run["state"]["type"] for run in runs] == ["CRASHED", "COMPLETED"]
    assert "resumed" in runs[1]["tags"]
    assert len(versions_of(team, "rnnlm-again")) == 1
    assert {run["info"]["status"] for run in team.mlflow_runs()} == {"FINISHED"}
    team.start("worker", busy)
