"""The commands `rnnlm prune`, `rnnlm backup` and `rnnlm restore`."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from flows.command_line import main
from flows.operations.home_servers import LOCK, RunningHome, write_running
from flows.operations.run_locks import lock_restored_runs
from rnnlm.storage.home import Home
from tasks.operations.registry_turn import registry_turn
from tests.rnnlm.extensions.upkeep.registry_histories import age_versions, register_night
from tests.rnnlm.extensions.upkeep.test_prune import names_in

ROOT = Path(__file__).resolve().parents[3]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.fixture
def three_nights(tracked_home: Home) -> Home:
    for night in range(3):
        register_night(tracked_home, "rnnlm-a", str(night), 50)
    age_versions(tracked_home, 50)
    return tracked_home


def test_prune_shows_what_would_go_and_then_removes_it(three_nights: Home, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("prune", "--versions", "1", "--datasets", "1")
    table = said(capsys, *arguments, "--dry-run")
    assert "would go" in table
    assert "rnnlm-a/3: among the last 1" in table
    assert "dry run: nothing was removed" in table
    assert len(names_in(three_nights.runs)) == 3
    pruned = json.loads(said(capsys, *arguments, "--json"))
    assert {row["kind"]: row["removed_items"] for row in pruned["totals"]}["version"] == 2
    assert names_in(three_nights.runs) == {"r2"}


@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
def test_prune_waits_while_another_process_changes_a_shared_registry(
    three_nights: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A store that is set by MLFLOW_TRACKING_URI counts as shared.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite+pysqlite:///{three_nights.mlflow_database}")
    held = threading.Event()
    seen = []

    def change() -> None:
        with registry_turn(three_nights):
            held.set()
            for _ in range(30):
                seen.append(names_in(three_nights.runs))
                time.sleep(0.1)

    other = threading.Thread(target=change)
    other.start()
    assert held.wait(60)
    assert main(["prune", "--versions", "1", "--datasets", "1"]) == 0
    other.join()
    assert seen == [{"r0", "r1", "r2"}] * 30
    assert names_in(three_nights.runs) == {"r2"}


def test_an_empty_home_has_nothing_to_prune(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing in this home yet" in said(capsys, "prune")


def test_a_home_is_backed_up_and_restored_by_commands(
    three_nights: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = said(capsys, "backup", str(tmp_path / "backup"))
    assert "versions   3" in text
    (archive,) = (tmp_path / "backup").iterdir()
    assert "every file has its sha256" in said(capsys, "backup", "--verify", str(archive))
    assert main(["restore", str(archive)]) == 2
    assert "is not empty" in capsys.readouterr().err
    shutil.move(three_nights.root, tmp_path / "gone")
    monkeypatch.setenv("RNNLM_HOME", str(tmp_path / "new"))
    assert "rnnlm deploy" in said(capsys, "restore", str(archive))
    assert len(json.loads(said(capsys, "models", "--json"))) == 3


HISTORY = """
import asyncio, datetime
from prefect.server.database import provide_database_interface
from prefect.server.database.orm_models import Flow, FlowRun, Log

async def fill():
    database = provide_database_interface()
    await database.create_db()
    async with database.session_context(begin_transaction=True) as session:
        flow = database.Flow(name="pipeline")
        session.add(flow)
        await session.flush()
        for name, days, state in (("old", 50, "COMPLETED"), ("young", 5, "COMPLETED"), ("alive", 50, "RUNNING")):
            end = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
            run = database.FlowRun(
                flow_id=flow.id, name=name, state_type=state, end_time=None if state == "RUNNING" else end
            )
            session.add(run)
            await session.flush()
            session.add(database.Log(name="rnnlm", level=20, message=name, timestamp=end, flow_run_id=run.id))

asyncio.run(fill())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_up", "address", "missing"),
    [
        (True, None, False),  # The user need not set an address, because `rnnlm up` sets it.
        (True, "http://127.0.0.1:4399/api", False),
        (True, "http://localhost:4399/api/", False),
        (True, "http://127.0.0.1:4398/api", True),
        (True, "https://prefect.example.org/api", True),
        (False, None, False),
        (False, "http://127.0.0.1:4399/api", True),  # `rnnlm up` has ended, so another server may use the port.
    ],
)
def test_a_backup_does_not_miss_the_homes_own_prefect_server(
    three_nights: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_up: bool,
    address: str | None,
    missing: bool,
) -> None:
    write_running(three_nights, RunningHome(1, "2026-11-28T00:00:00+00:00", 4399, 5399))
    if address:
        monkeypatch.setenv("PREFECT_API_URL", address)
    with three_nights.lock(LOCK) if is_up else contextlib.nullcontext():
        text = said(capsys, "backup", str(tmp_path / "backups"))
    assert ("missing    Prefect at " in text) == missing


@pytest.mark.long
def test_prune_deletes_old_flow_runs_of_a_home_without_a_server(home: Home) -> None:
    home.make(home.prefect)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment |= {"PREFECT_HOME": str(home.prefect), "RNNLM_HOME": str(home.root), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", HISTORY], env=environment, check=True)
    main_call = "import sys; from flows.command_line import main; sys.exit(main(['prune', '--days', '30']))"
    subprocess.run([sys.executable, "-c", main_call], env=environment, check=True)
    with closing(sqlite3.connect(home.prefect / "prefect.db")) as connection:
        runs = {name for (name,) in connection.execute("select name from flow_run")}
        logs = {message for (message,) in connection.execute("select message from log")}
    assert runs == logs == {"young", "alive"}
    # The unfinished run "alive" gets an unlocked lock file, because it counts as dead after a restore.
    assert lock_restored_runs(home) == 1
    assert len(names_in(home.root / "locks" / "flow-runs")) == 1
