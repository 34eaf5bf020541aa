"""Where MLflow keeps its records, opened safely by many processes, and its failures as one error of ours."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.errors import TrackingError
from rnnlm.home import Home
from rnnlm.redaction import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient  # importing it takes 2 s: at run time only where it is needed

ENVIRONMENT_DEFAULTS = {  # an explicit setting of the user's wins over each
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # by default one call to a server that is away blocks for 247 s
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds
}


def embedded_uri(home: Home) -> str:
    """The SQLite file in the home."""
    return f"sqlite:///{home.mlflow_database}"


def tracking_uri(home: Home) -> str:
    """MLFLOW_TRACKING_URI where it is set, else the SQLite file in the home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri(home)


def registry_uri(home: Home) -> str:
    """Where models are registered: MLFLOW_REGISTRY_URI where it is set, else the tracking store."""
    return os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri(home)


def is_embedded(home: Home) -> bool:
    return tracking_uri(home) == embedded_uri(home)


def is_empty(home: Home) -> bool:
    """True where nothing was ever tracked: no need to make a store just to find nothing in it."""
    return is_embedded(home) and not home.mlflow_database.exists()


def settle_mlflow() -> None:
    """MLflow's environment defaults, without its progress bars and migration chatter."""
    for name, value in ENVIRONMENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    for chatter in ("mlflow", "alembic"):
        logging.getLogger(chatter).setLevel(logging.WARNING)


def prepare_store(home: Home) -> None:
    """Make the home's SQLite store once, however many processes ask. Any other store is left to its server."""
    settle_mlflow()
    if not is_embedded(home):
        return
    if is_empty(home):
        home.make(home.root)
        home.make(home.artifacts)
        # Two processes that open a new store together corrupt its migration.
        with home.lock("mlflow"):
            if not home.mlflow_database.exists():
                make_database(home)
    # `mlflow ui` may have made the file, in SQLite's default mode. While it is busy the mode stays: nothing depends
    # on it but speed.
    with suppress(sqlite3.OperationalError):
        write_ahead(home.mlflow_database)


def write_ahead(database: Path) -> None:
    """Put a SQLite file into write-ahead mode: readers and the writer no longer wait for each other."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = wal")  # a write falls from 39 to 12 ms


def make_database(home: Home) -> None:
    """A migrated store in write-ahead mode, renamed into place: a killed migration leaves nothing behind."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    settle_mlflow()  # MLflow's import set up its own logging
    partial = home.root / ".mlflow.db.partial"
    for leftover in home.root.glob(f"{partial.name}*"):  # of a killed run: we hold the lock
        leftover.unlink()
    store = SqlAlchemyStore(f"sqlite:///{partial}", home.artifacts.as_uri())
    store.engine.dispose()
    write_ahead(partial)
    partial.replace(home.mlflow_database)


@contextmanager
def reaching_mlflow(home: Home) -> Iterator["MlflowClient"]:
    """A client for the block. What goes wrong with MLflow or its disk inside comes out as TrackingError."""
    settle_mlflow()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    settle_mlflow()
    uri = tracking_uri(home)
    try:
        prepare_store(home)
        yield MlflowClient(tracking_uri=uri, registry_uri=registry_uri(home))
    except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
        cause = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise TrackingError(
            f"MLflow at {redacted(uri)} failed: {redacted(cause)}\n"
            "Check that it runs and that MLFLOW_TRACKING_URI (unset: the home's mlflow.db) names it."
        ) from error


def experiment_id(client: "MlflowClient", home: Home, name: str) -> str:
    """The experiment's id; a missing one is created, with an artifact root that any client can read."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        # Without an explicit location artifacts would lie under the working directory.
        location = (home.artifacts / "experiments").as_uri() if is_embedded(home) else None
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:  # not another process that was quicker
                raise
    if found.lifecycle_stage == "deleted":
        raise TrackingError(
            f"experiment {name!r} was deleted in MLflow at {redacted(tracking_uri(home))};\n"
            "restore it there, or choose another by --set tracking.experiment=NAME."
        )
    return str(found.experiment_id)
