"""The commands schedule, trigger and status print one line if no server responds. They import no slow libraries."""

import asyncio
import itertools
import json
import re
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.names import ArtifactKey, BlockDocumentName
from prefect.types.names import Name as PrefectName
from pydantic import TypeAdapter

from flows.command_line import main
from flows.commands import schedules
from flows.operations.automations import NOTIFIER
from flows.operations.deployments import read_plans
from flows.operations.prefect_query import WORK_POOL, PrefectQuery, access_problem
from flows.operations.schedule_times import local_time, planned_times
from flows.operations.schedules import check_name, own_plan
from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.display.text_layout import LINE_WIDTH
from rnnlm.errors import ConfigError
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
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
    """A server that seems healthy, but responds to every query with `status`."""

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
    ("status", "advice"),
    [(500, "see the server's log: rnnlm logs"), (401, "set PREFECT_API_AUTH_STRING to the USER:PASSWORD")],
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


class OtherHomesServer(BaseHTTPRequestHandler):
    """The Prefect server of another rnnlm home. Its health page is public, but other pages require another password."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith("/health") else 401)
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


def test_a_run_does_not_begin_on_another_homes_server(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherHomesServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/api"
        monkeypatch.setenv("PREFECT_API_URL", address)
        monkeypatch.setenv("PREFECT_API_AUTH_STRING", "rnnlm:of this home")
        problem = access_problem(address)
        # The address is set here, too, because Prefect has already read the environment.
        with temporary_settings({PREFECT_API_URL: address}):
            assert main(["run", "--corpus", "zen", "--preset", "smoke"]) == 2
        server.shutdown()
    said = capsys.readouterr().err
    assert "asks for another password, so it may belong to another home" in problem
    assert problem in said
    assert "Traceback" not in said
    assert not home.corpora.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--timezone", "Mars/Phobos"], "--timezone 'Mars/Phobos': expected a name such as Europe/Berlin"),
        (["--timezone", "localtime"], "--timezone 'localtime': expected a name such as Europe/Berlin"),
        (["--timezone", ""], "--timezone '': expected a name such as Europe/Berlin"),
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


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("often", "expected five fields (minute, hour, day, month, weekday), got 1"),
        ("", "expected five fields (minute, hour, day, month, weekday), got 0"),
        # This cron line has the six fields of Quartz.
        ("0 0 2 * * ?", "expected five fields (minute, hour, day, month, weekday), got 6"),
        ("*/7 * * * * *", "expected five fields (minute, hour, day, month, weekday), got 6"),
        ("0 0 2 * * * 2027", "expected five fields (minute, hour, day, month, weekday), got 7"),
        ("61 2 * * *", "expected minute, hour, day, month and weekday"),
        ("0 2 * * 1#6", "expected minute, hour, day, month and weekday"),
        ("R 2 * * *", "expected minute, hour, day, month and weekday"),
        ("H H * * *", "expected minute, hour, day, month and weekday"),
        ("@reboot", "expected minute, hour, day, month and weekday"),
        ("0 2 30 2 *", "this day never comes"),
        ("0 2 31 4 *", "this day never comes"),
        ("0 2 31 2,4,6,9,11 *", "this day never comes"),
    ],
)
def test_a_cron_line_that_never_comes_is_refused_in_one_line(
    cron: str, problem: str, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cron line whose time never comes is refused before a server is queried."""
    assert main(["schedule", "--corpus", "zen", "--cron", cron]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--cron {cron!r}: {problem}" in line
    assert "every day at 02:00 is '0 2 * * *'" in line


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        ("@daily", ["Thu 02-25", "Fri 02-26", "Sat 02-27", "Sun 02-28", "Mon 03-01"]),
        ("0 2 * * MON-FRI", ["Thu 02-25", "Fri 02-26", "Mon 03-01", "Tue 03-02", "Wed 03-03"]),
        ("0 2 * * 7", ["Sun 02-28", "Sun 03-07", "Sun 03-14", "Sun 03-21", "Sun 03-28"]),
        ("0 2 L * ?", ["Sun 02-28", "Wed 03-31", "Fri 04-30", "Mon 05-31", "Wed 06-30"]),
        ("0 2 29 2 *", ["Tue 02-29", "Sun 02-29", "Fri 02-29", "Wed 02-29", "Mon 02-29"]),
        ("0 2 * * 1#1", ["Mon 03-01", "Mon 04-05", "Mon 05-03", "Mon 06-07", "Mon 07-05"]),
    ],
)
def test_the_next_times_are_those_of_the_calendar(cron: str, days: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.server.schemas import schedules as prefect_schedules
    from prefect.types._datetime import DateTime

    start = DateTime(2027, 2, 24, 12, 0, tzinfo=ZoneInfo("UTC"))
    monkeypatch.setattr(prefect_schedules, "now", lambda zone: start)
    assert [f"{moment:%a %m-%d}" for moment in planned_times(cron, "UTC")] == days


@pytest.mark.parametrize(("years", "shown"), [(0, r"\d\d-\d\d \d\d:\d\d"), (2, r"\d{4}-\d\d-\d\d \d\d:\d\d")])
def test_another_year_is_told(years: int, shown: str) -> None:
    moment = datetime.now().astimezone().replace(month=6, day=15)
    assert re.fullmatch(shown, local_time(moment.replace(year=moment.year + years)))


@pytest.mark.long
@given(st.datetimes(datetime(2027, 3, 27), datetime(2027, 3, 30)), st.sampled_from(["30 2 * * *", "0 3 * * *"]))
def test_a_time_that_the_clock_change_leaves_out_runs_once_that_night(moment: datetime, cron: str) -> None:
    """One run is planned for a time that a clock change skips, whenever Prefect plans that day."""
    schedule = CronSchedule(cron=cron, timezone="Europe/Berlin")
    start, end = moment.replace(tzinfo=UTC), datetime(2027, 4, 2, tzinfo=UTC)
    all_times = asyncio.run(schedule.get_dates(20, start=datetime(2027, 3, 26, 12, tzinfo=UTC), end=end))
    assert len({time.date() for time in all_times}) == len(all_times)
    assert set(asyncio.run(schedule.get_dates(20, start=start, end=end))) <= set(all_times)


@pytest.mark.long
def test_a_schedule_shows_its_next_time_at_once(
    home: Home, prefect_server: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        first = ["schedule", "--corpus", "zen", "--name", "first", "--timezone", "Europe/Berlin"]
        assert main([*first, "--cron", "30 4 * * 1-5"]) == 0
        said = capsys.readouterr().out
        assert len(re.findall(r"(?:Mon|Tue|Wed|Thu|Fri) \d{4}-\d\d-\d\d 04:30 CES?T\n", said)) == 5
        assert max(map(len, said.splitlines())) <= LINE_WIDTH
        assert main([*first, "--cron", "0 2 30 2 *"]) == 2
        capsys.readouterr()
        assert main(["schedules"]) == 0
        # There may be further rows, because the server also has the schedules of other tests.
        head, *rows = capsys.readouterr().out.splitlines()
        [(row, corpus)] = [(one, below) for one, below in itertools.pairwise(rows) if one.startswith("pipeline/first ")]
        assert "next, JST" in head
        # 04:30 in Berlin is 11:30 or 12:30 in Tokyo.
        assert re.fullmatch(r"pipeline/first +30 4 \* \* 1-5 +Europe/Berlin +(?:\d{4}-)?\d\d-\d\d 1[12]:30 *", row)
        assert corpus == "  corpus zen"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.long
@given(st.text(st.sampled_from("aZ9_-./%&<> \n\x00ä:@"), max_size=6) | st.text())
@example("a" * 101)
def test_a_name_that_prefect_refuses_is_refused(name: str) -> None:
    """A name that Prefect refuses for the deployment, for the slug of its schedule or for a tag is refused."""
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
    assert "not up; rnnlm up starts them" in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"] == []
    assert main(["logs"]) == 0
    assert "no logs yet" in capsys.readouterr().out
