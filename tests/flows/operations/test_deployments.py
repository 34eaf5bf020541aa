"""On a real server, prefect.yaml is deployed, runs appear on schedule, and a worker completes a triggered run."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.command_line import main
from flows.operations.automations import SHIPPED
from flows.operations.deployments import (
    FORMER_MODEL,
    JOB_TEMPLATE,
    MODEL_USERS,
    create_work_pool,
    deploy_all,
    read_plans,
)
from flows.operations.home_servers import LOCK, RunningHome, credentials, home_password, write_running
from flows.service.supervisor import worker_command
from rnnlm.config import PipelineConfig
from rnnlm.config.moved_settings import flatten
from rnnlm.config.preset_files import read_preset
from rnnlm.errors import DatasetError
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.registry.data_gates import GateResult, GatesRecord
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from rnnlm.storage.records import NightEvent
from tests.conftest import copy_store, home_in

PREFECT = [sys.executable, "-m", "prefect"]
HOLD_LOCK = """
import sys, time
from rnnlm.storage.home import find_home
with find_home().lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""
CHECKOUT = Path(__file__).resolve().parents[3]


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    assert poll_until(condition, seconds, every_seconds=0.25), f"no {what} within {seconds} s"


@pytest.fixture(scope="module")
def server_home(tmp_path_factory: pytest.TempPathFactory, mlflow_template: Path) -> Iterator[Home]:
    with home_in(tmp_path_factory.mktemp("deployed")) as home:
        copy_store(home, mlflow_template)
        yield home


@pytest.fixture(scope="module")
def server(server_home: Home) -> Iterator[httpx.Client]:
    """Start a Prefect server as in README, but on a free port.

    All tests of this file share it, because it starts slowly.
    """
    port = str(free_port())
    url = f"http://127.0.0.1:{port}/api"
    with pytest.MonkeyPatch.context() as environment, httpx.Client(base_url=url, timeout=30) as client:
        environment.setenv("PREFECT_API_URL", url)
        for name, value in printed_variables().items():
            environment.setenv(name, value)
        client.auth = httpx.BasicAuth(*credentials(home_password(server_home)))
        log = (server_home.root / "server.log").open("w")
        command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", port]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield client
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            log.close()


def printed_variables() -> dict[str, str]:
    """Return the environment variables of a shell after `eval "$(rnnlm env)"`."""
    script = f'eval "$({sys.executable} -m flows.command_line env)"; env -0'
    done = subprocess.run(["sh", "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)


@pytest.fixture(scope="module")
def deployed(server: httpx.Client, server_home: Home) -> list[str]:
    """Deploy everything while the server is still starting, and return the names of the deployments."""
    return deploy_all(server_home)


def runs(client: httpx.Client, deployment_id: str, state: str) -> list[dict[str, object]]:
    query = {
        "deployments": {"id": {"any_": [deployment_id]}},
        "flow_runs": {"state": {"type": {"any_": [state]}}},
    }
    answer = client.post("/flow_runs/filter", json=query)
    answer.raise_for_status()
    found: list[dict[str, object]] = answer.json()
    return found


@pytest.mark.slow
def test_deployed_runs_are_scheduled_and_a_worker_finishes_one(
    server: httpx.Client, deployed: list[str], server_home: Home, toy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"pipeline/nightly", "prepare/prepare", "train/train", "train/train-gpu"} <= set(deployed)
    assert {"sample/sample", "score/score"} <= set(deployed)
    queues = server.post("/work_pools/rnnlm/queues/filter", json={}).json()
    assert {"default", "gpu"} <= {queue["name"] for queue in queues}

    nightly = server.get("/deployments/name/pipeline/nightly").json()
    scoring = server.get("/deployments/name/score/score").json()
    for deployment in (nightly, scoring):
        wait_for(lambda id_=deployment["id"]: len(runs(server, id_, "SCHEDULED")) > 0, 60, "scheduled run")

    smoke = server.get("/deployments/name/pipeline/smoke").json()
    config = {
        "corpus": {"source": str(toy_folder)},
        "gates": {"duplicates_warn_at": 0.0},
        "training": {"maximum_tokens": 500, "device": "cpu"},
    }
    created = server.post(f"/deployments/{smoke['id']}/create_flow_run", json={"parameters": {"config": config}})
    created.raise_for_status()
    run_id = created.json()["id"]
    worker = subprocess.run(
        [*PREFECT, "worker", "start", "--pool", "rnnlm", "--run-once", "--install-policy", "never"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    finished = server.get(f"/flow_runs/{run_id}").json()
    assert finished["state"]["type"] == "COMPLETED", worker.stdout[-3000:] + worker.stderr[-3000:]
    assert "nanobind" not in worker.stdout + worker.stderr
    assert re.fullmatch(r"toy · smoke · \d{1,2} \w{3} \d\d:\d\d", finished["name"])
    assert set(finished["tags"]) >= {"toy", "smoke", "promoted"}
    [folder] = server_home.runs.glob("*/COMPLETE")
    used = json.loads((folder.parent / "config.json").read_text())
    assert used["corpus"]["source"] == str(toy_folder)
    assert (used["training"]["maximum_tokens"], used["training"]["device"]) == (500, "cpu")
    # Settings that the trigger does not give are those of the deployment.
    assert flatten(used).items() >= (flatten(read_preset("smoke")) | flatten(config)).items()
    lines = library_lines(server, run_id)
    for part in ("training: step ", "training: done", "rnnlm-toy version 1 becomes champion"):
        assert any(part in line for line in lines), lines

    capsys.readouterr()
    assert main(["status"]) == 0
    # The line breaks depend on the width of the terminal, so they are removed.
    told = " ".join(capsys.readouterr().out.split())
    assert f"gates {finished['name']} warned: " in told
    assert "% of the training rows repeat another row; expected at most 0.0%" in told


def library_lines(client: httpx.Client, run_id: str) -> list[str]:
    """Return rnnlm's lines in the logs of the run and of its tasks."""
    query = {"logs": {"flow_run_id": {"any_": [run_id]}}}
    logs = client.post("/logs/filter", json=query).json()
    return [log["message"] for log in logs if log["name"].startswith("rnnlm.")]


@pytest.mark.slow
@pytest.mark.parametrize("with_gpu", [False, True])
def test_up_has_a_gpu_queue_only_with_a_gpu(
    server: httpx.Client,
    deployed: list[str],
    server_home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_gpu: bool,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if with_gpu:
        (tmp_path / "nvidia-smi").touch(mode=0o755)
    write_running(server_home, RunningHome(1, "2026-11-28T00:00:00+00:00", 1, 2))
    up = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, LOCK], stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        assert up.stdout.readline() == "held\n"
        names = deploy_all(server_home)
    finally:
        up.kill()
        up.communicate()
    queues = {queue["name"] for queue in server.post("/work_pools/rnnlm/queues/filter", json={}).json()}
    assert ("gpu" in queues) == ("train/train-gpu" in names) == with_gpu
    assert (server.get("/deployments/name/train/train-gpu").status_code == 200) == with_gpu
    assert worker_command(RunningHome(1, "", 1, 2)).count("--work-queue") == int(not with_gpu)
    # Without `rnnlm up`, all deployments are created, because workers may run on other machines.
    deploy_all(server_home)
    assert server.get("/deployments/name/train/train-gpu").status_code == 200


@pytest.mark.slow
def test_a_persons_environment_for_the_pool_is_kept(server: httpx.Client, deployed: list[str]) -> None:
    # This import reads the environment, which the fixture sets, so it is inside the test.
    from prefect.client.orchestration import get_client

    secret = {"HF_TOKEN": "{{ prefect.blocks.secret.hub-token }}"}
    # The first value comes from Prefect's own template. The second value is a user's choice, which is kept.
    for given in ({"type": "object"}, {"type": "object", "default": secret}):
        template = server.get("/work_pools/rnnlm").json()["base_job_template"]
        template["job_configuration"] |= {"env": "{{ env }}", "command": "{{ command }}"}
        template["variables"]["properties"] |= {"env": given, "command": {"type": "string"}}
        server.patch("/work_pools/rnnlm", json={"base_job_template": template}).raise_for_status()
        with get_client(sync_client=True) as client:
            create_work_pool(client)
        found = server.get("/work_pools/rnnlm").json()["base_job_template"]
        assert found["job_configuration"] == JOB_TEMPLATE["job_configuration"]
        properties = JOB_TEMPLATE["variables"]["properties"]
        assert found["variables"]["properties"] == properties | ({"env": given} if "default" in given else {})
    # Restore the template, because a later run could not start with a secret block that does not exist.
    server.patch("/work_pools/rnnlm", json={"base_job_template": JOB_TEMPLATE}).raise_for_status()


@pytest.mark.slow
def test_bad_parameters_are_refused_before_a_run_exists(server: httpx.Client, deployed: list[str]) -> None:
    smoke = server.get("/deployments/name/pipeline/smoke").json()
    answer = server.post(
        f"/deployments/{smoke['id']}/create_flow_run",
        json={"parameters": {"config": {"model": {"layers": 0}}}},
    )
    assert answer.status_code in (409, 422)
    assert runs(server, smoke["id"], "PENDING") == []


@pytest.mark.slow
def test_a_run_with_an_unknown_parameter_fails_with_the_reason(server: httpx.Client, deployed: list[str]) -> None:
    smoke = server.get("/deployments/name/pipeline/smoke").json()
    run = server.post(f"/deployments/{smoke['id']}/create_flow_run", json={"parameters": {"sed": 3}}).json()
    command = [*PREFECT, "worker", "start", "--pool", "rnnlm", "--run-once", "--install-policy", "never"]
    subprocess.run(command, cwd=CHECKOUT, capture_output=True, timeout=240, check=False)
    state = server.get(f"/flow_runs/{run['id']}").json()["state"]
    assert state["type"] == "FAILED"
    assert state["message"].startswith("unknown parameters: sed; expected corpus, preset, ")


@pytest.mark.slow
def test_schedules_and_status_tell_the_next_and_the_last_run(
    server: httpx.Client, deployed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    scoring = server.get("/deployments/name/score/score").json()["id"]
    wait_for(lambda: len(runs(server, scoring, "SCHEDULED")) > 1, 60, "scheduled runs")
    run_through(server, scoring, {"type": "RUNNING"}, {"type": "COMPLETED"})
    soonest = min(str(planned["expected_start_time"]) for planned in runs(server, scoring, "SCHEDULED"))

    capsys.readouterr()
    assert main(["schedules", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"pipeline/nightly", "score/score", "filter/filter", "settle/settle", "prune/prune"} == set(rows)
    assert datetime.fromisoformat(rows["score/score"]["next_run"]) == datetime.fromisoformat(soonest)
    assert rows["score/score"]["last_state"] == "Completed"
    assert rows["pipeline/nightly"]["last_state"] == ""

    assert main(["status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert {"pipeline/nightly", "score/score"} <= {row["name"] for row in status["next"]}
    assert not [row for row in status["next"] if row["name"].startswith("settle/")]
    assert status["last"][0]["state"] == "Completed"

    stop = GateResult(gate="drift", outcome="stopped", share=0.7, text="too far", warn_at=0.1, stop_at=0.4)
    with pytest.raises(DatasetError) as stopped:
        GatesRecord(corpus_name="toy", model_name="rnnlm-toy", results=(stop,)).raise_if_stopped()
    smoke = server.get("/deployments/name/pipeline/smoke").json()["id"]
    name = run_through(server, smoke, {"type": "RUNNING"}, {"type": "FAILED", "message": str(stopped.value)})
    assert main(["status", "--json"]) == 0
    gates = json.loads(capsys.readouterr().out)["gates"]
    assert gates == f"{name} stopped: too far (expected at most 40.0%)."

    # A run that has never started is shown with its deployment's name.
    run_through(server, scoring, {"type": "CRASHED"})
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["last"][0]["name"] == "score"


def run_through(client: httpx.Client, deployment_id: str, *states: dict[str, str]) -> str:
    """Create a run of the deployment and set it to the states that a worker would set. Return its name."""
    run = client.post(f"/deployments/{deployment_id}/create_flow_run", json={}).json()
    for state in states:
        client.post(f"/flow_runs/{run['id']}/set_state", json={"state": state, "force": True}).raise_for_status()
    return str(run["name"])


class Inbox:
    """An HTTP server on a loopback address that stores the bodies of POST requests."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                inbox.messages.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=secret"

    def with_subject(self, subject: str) -> list[str]:
        return [message["body"] for message in self.messages if message["subject"] == subject]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    thread = threading.Thread(target=inbox.server.serve_forever)
    thread.start()
    yield inbox
    inbox.server.shutdown()
    thread.join()
    inbox.server.server_close()


def automations(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {automation["name"]: automation for automation in client.post("/automations/filter", json={}).json()}


@pytest.mark.slow
def test_people_hear_of_a_failed_run_and_of_a_new_champion(
    server: httpx.Client, deployed: list[str], inbox: Inbox, server_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    created = automations(server)
    assert set(SHIPPED) <= set(created)
    assert all(created[name]["actions"] == [{"type": "do-nothing"}] for name in SHIPPED)

    # A user disables one automation, and sets another action for another automation.
    disabled, own = "rnnlm: text drifted", "rnnlm: perplexity regressed"
    server.patch(f"/automations/{created[disabled]['id']}", json={"enabled": False}).raise_for_status()
    settle = server.get("/deployments/name/settle/settle").json()["id"]
    run_settle = {"type": "run-deployment", "source": "selected", "deployment_id": settle, "parameters": {}}
    changed = {key: created[own][key] for key in ("name", "description", "enabled", "trigger")}
    changed["actions"] = [run_settle]
    server.put(f"/automations/{created[own]['id']}", json=changed).raise_for_status()

    # No server listens at this address, so the test message fails.
    assert main(["notify", "http://127.0.0.1:9/hook"]) == 2
    assert "test message was not accepted" in capsys.readouterr().err
    assert automations(server)["rnnlm: run failed"]["actions"] == [{"type": "do-nothing"}]
    for _ in range(2):  # Call the command twice, because the second call must change nothing.
        assert main(["notify", inbox.url]) == 0
    assert "secret" not in capsys.readouterr().out
    assert [message["subject"] for message in inbox.messages] == ["rnnlm: test"] * 2
    now = automations(server)
    assert len(now) == len(created)
    assert now[own]["actions"][0]["type"] == "run-deployment"
    assert not now[disabled]["enabled"]
    told = [name for name in SHIPPED if now[name]["actions"][0]["type"] == "send-notification"]
    assert set(told) == set(SHIPPED) - {own}

    smoke = server.get("/deployments/name/pipeline/smoke").json()
    parameters = {"config": {"corpus": {"source": str(server_home.root / "missing.txt")}}}
    run = server.post(f"/deployments/{smoke['id']}/create_flow_run", json={"parameters": parameters}).json()
    command = [*PREFECT, "worker", "start", "--pool", "rnnlm", "--run-once", "--install-policy", "never"]
    subprocess.run(command, cwd=CHECKOUT, capture_output=True, timeout=240, check=False)
    wait_for(lambda: bool(inbox.with_subject("rnnlm: run failed")), 240, "message about the failed run")
    [failed] = inbox.with_subject("rnnlm: run failed")
    assert "missing.txt" in failed
    assert failed.splitlines()[-1].endswith(f"/runs/flow-run/{run['id']}")

    champion = NightEvent(
        name="rnnlm.champion.replaced",
        resource_id="rnnlm.model.rnnlm-toy",
        resource_name="rnnlm-toy",
        message="toy: rnnlm-toy version 2 is the new champion: it is better.",
    )
    kept = champion.model_copy(update={"name": "rnnlm.champion.kept", "message": "toy: kept."})
    sixth, seventh = (kept.model_copy(update={"labels": {"rnnlm.candidates": number}}) for number in "67")
    # Prefect reads the server's address during this import, so it is inside the test.
    from tasks.registration import raise_events

    raise_events.fn((sixth, seventh, champion))
    wait_for(lambda: bool(inbox.with_subject("rnnlm: champion replaced")), 240, "message about the champion")
    [body] = inbox.with_subject("rnnlm: champion replaced")
    assert body.strip() == champion.message
    # The message is sent when the champion was kept seven times in a row. Events are handled in order, so none was sent
    # for the sixth time.
    wait_for(lambda: bool(inbox.with_subject("rnnlm: champion kept 7 times")), 240, "message about candidates")
    assert len(inbox.with_subject("rnnlm: champion kept 7 times")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MODEL_USERS)
def test_what_was_chosen_in_the_ui_survives_another_deploy(
    server: httpx.Client, deployed: list[str], server_home: Home, name: str
) -> None:
    shipped = server.get(f"/deployments/name/{name}/{name}").json()
    config, [schedule] = shipped["parameters"]["config"], shipped["schedules"]
    address = f"/deployments/{shipped['id']}"
    switch = f"{address}/schedules/{schedule['id']}"
    server.patch(switch, json={"active": not schedule["active"]}).raise_for_status()
    for model, kept in (("rnnlm-toy@challenger", {"model": "rnnlm-toy@challenger"}), (FORMER_MODEL, {})):
        changed = config | {"model": model, "input": "elsewhere"}
        server.patch(address, json={"parameters": {"config": changed}}).raise_for_status()
        deploy_all(server_home)
        deployment = server.get(address).json()
        assert deployment["parameters"]["config"] == config | kept
        assert [one["active"] for one in deployment["schedules"]] == [not schedule["active"]]
    server.patch(switch, json={"active": schedule["active"]}).raise_for_status()


def test_what_our_docs_start_sends_no_telemetry(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--json"]) == 0
    variables = json.loads(capsys.readouterr().out)
    assert variables["DO_NOT_TRACK"] == "true"
    assert variables["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert variables["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert variables["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_scoring_every_night_names_no_model() -> None:
    """The `score` and `filter` deployments name no model, so they use the only registered model."""
    parameters = {plan["name"]: plan.get("parameters", {}) for plan in read_plans()}
    trained = PipelineConfig.model_validate(parameters["nightly"]["config"])
    assert trained == PipelineConfig(limits=trained.limits)
    scored = ScoringConfig.model_validate(parameters["score"]["config"])
    filtered = FilterConfig.model_validate(parameters["filter"]["config"])
    assert (filtered.model, filtered.input) == (scored.model, scored.input) == (None, "inbox")


def test_a_run_started_by_hand_waits_for_the_scheduled_one() -> None:
    """A run that was started by hand is queued and waits for the scheduled run of its deployment.

    With CANCEL_NEW, Prefect would cancel a run that is started at the minute of the schedule.
    """
    for plan in read_plans():
        if plan.get("schedules"):
            assert plan["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}, plan["name"]
