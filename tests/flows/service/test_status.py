"""The output of `rnnlm status` about runs on a real Prefect server, and about models in a real MLflow store."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import State
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Failed, Late, Pending, Running, Scheduled

from flows.command_line import main
from flows.commands.service import status_text
from flows.operations.interrupted_runs import RESUMED, STOPPED
from flows.operations.prefect_query import SCHEDULED_TAG, PrefectQuery
from flows.operations.schedules import list_schedules
from flows.service.status import HomeStatus, runs_of
from rnnlm.display.text_layout import LINE_WIDTH
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.registrar import Registrar

if TYPE_CHECKING:
    from mlflow import MlflowClient

pytestmark = pytest.mark.long
NIGHT = [SCHEDULED_TAG]
TOY = "rnnlm-toy"


@pytest.fixture
def client(prefect_server: None) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        # Delete the runs of other tests, because only the last five runs are shown.
        while found := client.read_flow_runs():
            for run in found:
                client.delete_flow_run(run.id)
        for deployment in client.read_deployments():
            client.delete_deployment(deployment.id)
        yield client


@pytest.fixture
def query() -> PrefectQuery:
    return PrefectQuery(str(PREFECT_API_URL.value()))


@pytest.fixture
def tickets(client: SyncPrefectClient) -> UUID:
    schedule = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 2 29 2 *", timezone="Europe/Berlin"), slug="a")
    return client.create_deployment(
        client.create_flow(flow(lambda: None, name="pipeline")), "tickets", schedules=[schedule]
    )


def run_through(client: SyncPrefectClient, deployment: UUID, tags: list[str], *states: State[None]) -> str:
    """Create a run of the deployment, set it to these states in order, and return the run's name."""
    run = client.create_flow_run_from_deployment(deployment, tags=tags)
    for state in states:
        client.set_flow_run_state(run.id, state, force=True)
    return run.name


def printed(query: PrefectQuery) -> tuple[HomeStatus, list[str]]:
    status = HomeStatus(home="home", disk_bytes={}).model_copy(update=runs_of(query))
    lines = status_text(status).splitlines()
    assert max(map(len, lines)) <= LINE_WIDTH
    return status, lines


@pytest.mark.parametrize(
    ("state", "waits_for"),
    [
        (Scheduled(scheduled_time=datetime.now(UTC) - timedelta(minutes=1)), "the worker"),
        (Late(scheduled_time=datetime.now(UTC) - timedelta(hours=1)), "the worker"),
        (Pending(), "the worker"),
        (
            Scheduled(name="AwaitingConcurrencySlot", scheduled_time=datetime.now(UTC) + timedelta(minutes=1)),
            "the run before it",
        ),
    ],
)
@pytest.mark.parametrize("tags", [[], NIGHT])
def test_what_has_not_begun_waits_under_its_schedules_name(
    client: SyncPrefectClient, query: PrefectQuery, tickets: UUID, state: State[None], waits_for: str, tags: list[str]
) -> None:
    random_name = run_through(client, tickets, tags, state)
    status, lines = printed(query)
    assert status.running == ()
    [waiting] = [line for line in lines if line.startswith("waiting")]
    by_hand = "" if tags else ", by hand"
    assert waiting.startswith(f"waiting    tickets{by_hand}: due ")
    assert waiting.endswith(f", waits for {waits_for}")
    assert random_name not in "\n".join(lines)
    [coming] = status.next  # The next planned run is on 29 February. The waiting run is not listed.
    assert coming.name == "pipeline/tickets"
    assert coming.when.endswith("02-29 01:00")


def test_a_run_that_waits_for_its_retry_keeps_its_name(
    client: SyncPrefectClient, query: PrefectQuery, tickets: UUID
) -> None:
    retried: State[None] = AwaitingRetry(scheduled_time=datetime.now(UTC) + timedelta(minutes=5))
    name = run_through(client, tickets, NIGHT, Running(), retried)
    lines = printed(query)[1]
    assert re.search(
        rf"^waiting    {re.escape(name)}: due \d\d-\d\d \d\d:\d\d, waits for its retry$", "\n".join(lines), re.M
    )


def test_a_state_other_than_running_is_told(client: SyncPrefectClient, query: PrefectQuery, tickets: UUID) -> None:
    name = run_through(client, tickets, NIGHT, Running(), State(type="CANCELLING"))
    lines = printed(query)[1]
    assert f"running    {name}" in lines
    assert [line for line in lines if line.endswith("; Cancelling")]


@pytest.mark.parametrize("by_hand", [Failed(message="wrong"), Crashed(), Cancelled(), Completed()])
def test_a_run_by_hand_is_not_the_schedules_night(
    client: SyncPrefectClient, query: PrefectQuery, tickets: UUID, by_hand: State[None]
) -> None:
    run_through(client, tickets, NIGHT, Running(), Completed())
    run_through(client, tickets, [], Running(), by_hand)
    status, lines = printed(query)
    assert [(one.schedule, one.state) for one in status.nights] == [("tickets", "Completed")]
    assert [(one.schedule, one.state) for one in status.by_hand] == [("tickets", by_hand.name)]
    assert [line for line in lines if line.startswith("by hand    tickets: ")]
    assert [(run.state, run.by_hand) for run in status.last] == [(by_hand.name, True), ("Completed", False)]
    [row] = list_schedules(query)
    assert (row.last_state, row.last_by_hand) == (by_hand.name, True)

    run_through(client, tickets, [*NIGHT, "resumed"], Running(), Failed(message="the night's own"))
    status, lines = printed(query)
    assert [(one.state, one.outcome) for one in status.nights] == [("Failed", "the night's own")]
    assert status.by_hand == ()
    assert not list_schedules(query)[0].last_by_hand


@pytest.mark.parametrize(
    ("interrupted", "what"),
    [(Crashed(), "resumes after a crash"), (State(type="CANCELLED", name=STOPPED), "resumes after a stop")],
)
def test_a_run_that_continues_another_says_so(
    client: SyncPrefectClient, query: PrefectQuery, tickets: UUID, interrupted: State[None], what: str
) -> None:
    run_through(client, tickets, NIGHT, Running(), Failed())
    run_through(client, tickets, NIGHT, Running(), interrupted)
    run_through(client, tickets, [*NIGHT, RESUMED], Pending())
    [waiting] = printed(query)[0].waiting
    assert waiting.note == f"the worker; {what}"
    run_through(client, tickets, [*NIGHT, RESUMED], Running())
    lines = printed(query)[1]
    assert [line for line in lines if line.strip().startswith("since ") and line.endswith(f"; {what}")]


def test_the_free_disk_is_told(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.make(home.root)
    assert main(["status"]) == 0
    [free] = [line for line in capsys.readouterr().out.splitlines() if "free on this disk" in line]
    assert float(free.split()[-1].replace(",", "")) == pytest.approx(shutil.disk_usage(home.root).free / 1e6, rel=0.1)


def test_what_ended_before_it_began_is_listed_under_its_schedules_name(
    client: SyncPrefectClient, query: PrefectQuery, tickets: UUID
) -> None:
    random_name = run_through(client, tickets, NIGHT, Crashed(message="did not start"))
    status, lines = printed(query)
    assert [run.name for run in (*status.last, *status.errors)] == ["tickets", "tickets"]
    assert random_name not in "\n".join(lines)


def lose_version_1(client: "MlflowClient") -> None:
    client.delete_model_version(TOY, "1")


def lose_the_second_champion(client: "MlflowClient") -> None:
    # Versions that were registered by an older rnnlm have no history of champions.
    client.set_model_version_tag(TOY, "2", "alias", "champion")
    client.set_registered_model_alias(TOY, "champion", "2")
    client.delete_model_version(TOY, "2")


def lose_the_alias(client: "MlflowClient") -> None:
    client.delete_registered_model_alias(TOY, "champion")


@pytest.mark.parametrize(
    ("lose", "advice", "champion"),
    [
        (lose_version_1, "rnnlm promote rnnlm-toy/2", 2),
        (lose_the_second_champion, "rnnlm rollback rnnlm-toy", 1),
        (lose_the_alias, "rnnlm rollback rnnlm-toy", 1),
    ],
)
def test_a_model_without_champion_is_told_with_the_command_that_repairs_it(
    registered: Registrar,
    capsys: pytest.CaptureFixture[str],
    lose: Callable[["MlflowClient"], None],
    advice: str,
    champion: int,
) -> None:
    assert registered(force=True).version == 2
    with reaching_mlflow(registered.home) as client:
        client.create_registered_model("another-programs")
        client.create_model_version("another-programs", str(registered.home.root))
        lose(client)
    assert main(["status"]) == 0
    assert f"champion   {TOY}: no champion\n           {advice}\n" in capsys.readouterr().out
    assert main(advice.split()[1:]) == 0
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["without_champion"] == []
    assert [(row["model"], row["version"]) for row in status["champions"]] == [(TOY, champion)]


def test_a_model_without_any_version_waits_for_the_next_run(
    registered: Registrar, capsys: pytest.CaptureFixture[str]
) -> None:
    with reaching_mlflow(registered.home) as client:
        client.delete_model_version(TOY, "1")
    assert main(["status"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{TOY}: no champion no version is left, and the next run registers one" in said
    assert not registered().skipped
