"""Concurrent processes create one intact store. Failures of MLflow are raised as rnnlm's errors."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.tracking._tracking_service.utils import _get_store

from rnnlm.errors import ConfigError, HomeError, TrackingError
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import (
    check_addresses,
    experiment_id,
    prepare_store,
    reaching_mlflow,
)


@pytest.mark.slow
def test_two_processes_make_one_store_on_a_fresh_home(home: Home) -> None:
    script = (
        "from rnnlm.storage.home import find_home\n"
        "from rnnlm.tracking.mlflow_store import experiment_id, reaching_mlflow\n"
        "home = find_home()\n"
        "with reaching_mlflow(home) as client: print(experiment_id(client, home, 'together'))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ends = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], ends
    assert ends[0][0] == ends[1][0]
    with sqlite3.connect(home.mlflow_database) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)


def test_opening_a_store_sets_write_ahead_mode(tracked_home: Home) -> None:
    # Create the database in the same way as `mlflow ui`.
    with closing(sqlite3.connect(tracked_home.mlflow_database)) as connection:
        assert connection.execute("pragma journal_mode = delete").fetchone() == ("delete",)
    with reaching_mlflow(tracked_home) as client:
        client.search_experiments()
    with closing(sqlite3.connect(tracked_home.mlflow_database)) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)


def test_leftover_of_a_killed_migration_does_no_harm(tracked_home: Home) -> None:
    database = tracked_home.mlflow_database.read_bytes()
    (tracked_home.root / ".mlflow.db.partial").write_bytes(b"half a database")
    prepare_store(tracked_home)
    assert tracked_home.mlflow_database.read_bytes() == database


def test_artifacts_lie_in_the_home_wherever_the_program_runs(
    tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with reaching_mlflow(tracked_home) as client:
        number = experiment_id(client, tracked_home, "rnnlm")
        assert experiment_id(client, tracked_home, "rnnlm") == number
        assert client.get_experiment(number).artifact_location.startswith(tracked_home.artifacts.as_uri())
    assert not (tmp_path / "mlruns").exists()


def test_an_unavailable_server_is_a_tracking_error_of_three_lines(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError) as caught, reaching_mlflow(home) as client:
        client.search_experiments()
    assert "http://127.0.0.1:9" in str(caught.value)
    assert "MLFLOW_TRACKING_URI" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_home_that_cannot_be_made_is_a_home_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(HomeError):
        prepare_store(Home(tmp_path / "file"))


@pytest.mark.parametrize("name", ["rnnlm", "новости 'n' \"2024\"", "a/b%_"])
def test_an_experiment_that_was_renamed_goes_on(tracked_home: Home, name: str) -> None:
    with reaching_mlflow(tracked_home) as client:
        first = client.create_experiment(name)  # Create an experiment without the tag, as rnnlm 0.3 did.
        other = experiment_id(client, tracked_home, "other")
        assert experiment_id(client, tracked_home, name) == first
        for title in ("Our nights", "Nights"):
            client.rename_experiment(first, title)
            assert experiment_id(client, tracked_home, name) == first
        assert client.get_experiment(first).name == "Nights"
        assert experiment_id(client, tracked_home, "Nights") == first
        # An experiment with the configured name takes precedence over a renamed experiment.
        again = client.create_experiment(name)
        assert experiment_id(client, tracked_home, name) == again
        assert experiment_id(client, tracked_home, "other") == other


def test_a_deleted_experiment_says_what_to_do(tracked_home: Home) -> None:
    with reaching_mlflow(tracked_home) as client:
        client.delete_experiment(experiment_id(client, tracked_home, "gone"))
        with pytest.raises(TrackingError, match="tracking.experiment"):
            experiment_id(client, tracked_home, "gone")


ADDRESSES = {
    "localhost:5000": False,
    "127.0.0.1:5000": False,
    "mlflow.example.org": False,
    "http//x:5000": False,
    "htp://x": False,
    "ftp://x": False,
    "http://[::1": False,
    "sqlite:mlflow.db": False,
    "sqlite://mlflow.db": False,
    "postgres://u:secret@h/db": False,
    "mlruns": False,
    "/srv/mlruns": False,
    "file:///srv/mlruns": False,
    "http://x:5000": True,
    "https://x/mlflow": True,
    "http://[::1]:5000": True,
    "sqlite:////tmp/address-test.db": True,
    "databricks": True,
}


@pytest.mark.long
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_unknown_tracking_address_is_refused_at_once(
    address: str, home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = address.replace("/tmp/", f"{tmp_path}/")
    try:
        _get_store(address)
        works = True
    except Exception:
        works = False
    assert works == ADDRESSES.get(address, True)
    for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        with monkeypatch.context() as patched:
            patched.setenv(variable, address)
            if works:
                check_addresses()
                continue
            with pytest.raises(ConfigError, match=f"^{variable}=.*: .*expected an address such as ") as refused:
                check_addresses()
            assert "secret" not in str(refused.value)
            with pytest.raises(ConfigError), reaching_mlflow(home):
                pass


@pytest.mark.parametrize("address", ["http://", "http:/x:5000", "http://x y:5000", "http://x:port", "http://x:0"])
def test_an_address_that_no_request_can_reach_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that no request can reach is refused, although MLflow accepts it and fails at the first request."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(ConfigError, match=r"expected an address such as http://mlflow\.example\.org:5000"):
        check_addresses()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mysql://user:secret@host/db")
    with pytest.raises(ConfigError, match="the driver MySQLdb is not installed: pip install mysqlclient"):
        check_addresses()
