"""schedule, trigger, status without a server: one plain line each, before anything slow is imported."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prefect.types.names import ArtifactKey, BlockDocumentName
from prefect.types.names import Name as PrefectName
from pydantic import TypeAdapter

from flows.command_line import main
from flows.commands import schedules
from flows.operations.automations import NOTIFIER
from flows.operations.deployments import read_plans
from flows.operations.prefect_query import WORK_POOL, PrefectQuery
from flows.operations.schedules import check_name, own_plan
from flows.service.home_processes import free_port
from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.presets import build_config
from rnnlm.tracking.run_names import page_key


@pytest.mark.parametrize(
    "command", [["schedules"], ["trigger", "mine"], ["unschedule", "mine"], ["deploy"], ["schedule", "--corpus", "zen"]]
)
def test_without_a_server_they_say_how_to_start_one(
    command: list[str], home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert main(command) == 2
    assert "no Prefect server: start one with rnnlm up" in capsys.readouterr().err


class RefusingServer(BaseHTTPRequestHandler):
    """It is healthy, and answers every question with `status`."""

    status: int

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


@pytest.mark.parametrize(
    ("status", "advice"), [(500, "see the server's log: rnnlm logs"), (401, "set PREFECT_API_AUTH_STRING=")]
)
@pytest.mark.parametrize("command", [["trigger", "mine"], ["schedules"]])
def test_a_server_that_refuses_ends_the_command_with_advice(
    command: list[str],
    status: int,
    advice: str,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(RefusingServer, "status", status, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), RefusingServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.server_port}/api")
        assert main(command) == 2
        server.shutdown()
    said = capsys.readouterr().err
    assert f"Prefect answered with status {status}" in said
    assert advice in said


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--cron", "often"], "--cron 'often': expected '0 2 * * *' for every day at 02:00"),
        (["--timezone", "Mars/Phobos"], "--timezone 'Mars/Phobos': expected Europe/Berlin"),
        (["--corpus", "missing.txt"], "missing.txt"),
        (["--name", "a/b"], "--name 'a/b': expected up to 100 letters"),
        (["--name", " "], "--name ' ': expected"),
        (
            ["--set", "registry.model_name=a.b"],
            "registry.model_name: expected name of the registered model, without a dot",
        ),
        (["--set", "tracking.experiment="], "tracking.experiment: expected"),
        (["--set", "model.layers=0"], "model.layers: expected at least 1; got 0"),
    ],
)
def test_wrong_values_are_named(
    options: list[str], problem: str, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", "--corpus", "zen", *options]) == 2
    assert problem in capsys.readouterr().err


@given(st.text(st.sampled_from("aZ9_-./%&<> \n\x00ä:@"), max_size=6) | st.text())
@example("a" * 101)
def test_a_name_that_prefect_refuses_is_refused(name: str) -> None:
    """A name is used for the deployment, as the slug of its schedule, and as a tag of its runs."""
    try:
        check_name(name)
    except ConfigError:
        return
    TypeAdapter(PrefectName).validate_python(name)
    assert name == name.strip()
    assert name.isprintable()


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ([], {"hours": 20.0, "retries": 1}),
        (["limits.hours=8"], {"hours": 8.0, "retries": 1}),
        (["limits.retries=0", "limits.hours=null"], {"hours": None, "retries": 0}),
        (["limits.retry_minutes=1"], {"hours": 20.0, "retries": 1, "retry_minutes": 1.0}),
    ],
)
def test_limits_that_are_not_given_are_those_of_nightly(settings: list[str], limits: dict[str, float | None]) -> None:
    [nightly] = [plan for plan in read_plans() if plan["name"] == "nightly"]
    config = build_config("smoke", settings, "zen")
    plan = own_plan(nightly, "mine", config, "0 2 * * *", "UTC")
    assert plan["parameters"]["config"]["limits"] == limits
    scheduled = PipelineConfig.model_validate(plan["parameters"]["config"])
    assert scheduled == config.model_copy(update={"limits": scheduled.limits})


def test_nobody_waits_for_a_run_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(schedules, "FOLLOW_SECONDS", 0.01)
    with pytest.raises(ConfigError, match="Prefect has not answered"):
        schedules.follow_run(PrefectQuery(f"http://127.0.0.1:{free_port()}/api"), "any")


def test_prefect_takes_our_own_names() -> None:
    for name in (WORK_POOL, *(plan["name"] for plan in read_plans())):
        TypeAdapter(PrefectName).validate_python(name)
        check_name(name)
    TypeAdapter(BlockDocumentName).validate_python(NOTIFIER)
    for corpus in ("a", "a" * 63, "ptb-2"):
        TypeAdapter(ArtifactKey).validate_python(page_key(corpus, "summary"))


@pytest.mark.parametrize("command", [["run", "--corpus", "zen", "--preset", "smoke"], ["models"]])
def test_an_address_that_mlflow_cannot_use_is_refused_before_work(
    command: list[str], home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "localhost:5000")
    assert main(command) == 2
    problem = capsys.readouterr().err
    assert "MLFLOW_TRACKING_URI=localhost:5000: expected an address such as http://" in problem
    assert "Traceback" not in problem
    assert not home.corpora.exists()


def test_status_and_logs_of_an_unused_home(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert "not up: rnnlm up" in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"] == []
    assert main(["logs"]) == 0
    assert "no logs yet" in capsys.readouterr().out
