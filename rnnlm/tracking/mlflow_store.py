"""The MLflow store: its address, its creation by concurrent processes, and a common error type for all its failures."""

import importlib.metadata
import json
import logging
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rnnlm.errors import ConfigError, TrackingError
from rnnlm.runtime.proxies import proxy_problem
from rnnlm.storage.disk_errors import RESTORE, damage_of_database
from rnnlm.storage.home import Home
from rnnlm.storage.redaction import redacted
from rnnlm.tracking.stored_locations import mend_locations

if TYPE_CHECKING:
    # The import is only for type annotations. Functions import mlflow themselves, because this takes 2 s.
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

logger = logging.getLogger(__name__)
# A query parameter for addresses of MLflow's UI. Without this parameter, the UI opens pages for chat models.
TRAINING_VIEW = "workflowType=machine_learning"
VIEW = "rnnlm"  # The name of the shared view of an experiment.
RUN_LIST_VIEW = f"viewStateShareKey={VIEW}&{TRAINING_VIEW}"
# The shared view of an experiment in the UI of MLflow 3.17: the filters, the order and the columns of the list of runs.
VIEW_STATE = {
    "searchFilter": "",
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "selectedColumns": [  # The columns of the list of runs, which shows no metrics by default.
        "attributes.`Duration`",
        "metrics.`test_perplexity`",
        "metrics.`test_bits_per_byte`",
        "params.`preset`",
        "tags.`corpus`",
        "tags.`decision`",
    ],
    "viewMaximized": True,
}
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
# The tag with the experiment's configured name, which remains the same if a user renames the experiment in the UI.
NAME_TAG = "rnnlm.experiment"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    VIEW_TAG: json.dumps(VIEW_STATE),
}
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")  # The kinds of databases that MLflow supports as a store.
# The package to install for each module of a database driver.
DRIVERS = {"psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
ENVIRONMENT_DEFAULTS = {  # Environment variables for MLflow, which do not replace values that the user has set.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # By default a call to an unavailable server blocks for 247 s.
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # The timeout of a request in seconds.
}


def embedded_uri(home: Home) -> str:
    """Return the address of the SQLite file in the rnnlm home."""
    return f"sqlite:///{home.mlflow_database}"


def tracking_uri(home: Home) -> str:
    """Return the environment variable MLFLOW_TRACKING_URI, or the address of the SQLite file in the rnnlm home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri(home)


def registry_uri(home: Home) -> str:
    """Return the address of the model registry: MLFLOW_REGISTRY_URI if set, otherwise the tracking store."""
    return os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri(home)


def import_mlflow() -> None:
    """Import MLflow and its store, which takes 2 s.

    This function is called while the process would otherwise wait.
    """
    from mlflow import MlflowClient  # noqa: F401
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: F401

    settle_mlflow()  # Logging is set up again, because MLflow changes it when it is imported.


def check_addresses() -> None:
    """Raise ConfigError if MLflow cannot use the address in MLFLOW_TRACKING_URI or MLFLOW_REGISTRY_URI.

    No server is contacted.
    """
    for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        address = os.environ.get(variable)
        if address and (problem := address_problem(address)):
            raise ConfigError(f"{variable}={redacted(address)}: {problem}")


def address_problem(address: str) -> str:
    """Return the reason why MLflow cannot use `address` as a store, with a valid example, or "" if there is none."""
    example = "expected an address such as http://mlflow.example.org:5000, or sqlite:////absolute/path/mlflow.db"
    try:
        parts = urlsplit(address)
        # Reading the attribute `port` raises ValueError if it is not a number.
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        return f"{error}; {example}"
    if scheme in ("http", "https"):
        return example if not host or port == 0 or re.search(r"\s", address) else proxy_problem(address)
    if scheme.partition("+")[0] in DATABASES:
        return database_problem(address)
    if scheme.startswith("databricks") or address.startswith("databricks"):
        return ""
    if not scheme or scheme == "file":
        return f"MLflow keeps no new stores in folders; {example}"
    plugins = {plugin.name for plugin in importlib.metadata.entry_points(group="mlflow.tracking_store")}
    return "" if scheme in plugins else example


def database_problem(address: str) -> str:
    """Return the reason why SQLAlchemy has no engine for this address, or "". No connection is made."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    try:
        create_engine(address).dispose()
    except ModuleNotFoundError as error:
        return f"the driver {error.name} is not installed: pip install {DRIVERS.get(error.name or '', error.name)}"
    except (SQLAlchemyError, ValueError) as error:
        return f"{str(error).splitlines()[0]}; expected an address such as sqlite:////absolute/path/mlflow.db"
    return ""


def is_embedded(home: Home) -> bool:
    return tracking_uri(home) == embedded_uri(home)


def is_empty(home: Home) -> bool:
    """Return True if this rnnlm home has no MLflow store, because nothing was ever tracked."""
    return is_embedded(home) and not home.mlflow_database.exists()


def settle_mlflow() -> None:
    """Set environment variables for MLflow, and turn off its progress bars and migration logs."""
    for name, value in ENVIRONMENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # This module would log tracebacks of errors that a TrackingError reports.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


def prepare_store(home: Home) -> None:
    """Create the SQLite store of the rnnlm home once, even with concurrent processes.

    A server creates its own store. If the rnnlm home was moved, the paths in MLflow's database are corrected.
    """
    settle_mlflow()
    if not is_embedded(home):
        return
    if is_empty(home):
        home.make(home.root)
        home.make(home.artifacts)
        # Only one process at a time may create the store, because concurrent migrations would corrupt it.
        with home.lock("mlflow"):
            if not home.mlflow_database.exists():
                make_database(home)
    mend_locations(home.mlflow_database, home.root)
    # If `mlflow ui` uses the file in another mode, the mode cannot be changed now. The mode affects only the speed.
    with suppress(sqlite3.OperationalError):
        write_ahead(home.mlflow_database)
    home.keep_private()


def write_ahead(database: Path) -> None:
    """Set a SQLite file to write-ahead mode, in which readers and the writer do not block each other."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = wal")  # In write-ahead mode, a write takes 12 ms instead of 39.


def make_database(home: Home) -> None:
    """Create a migrated store in write-ahead mode.

    The store is created atomically, so that a killed migration leaves no store behind.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    settle_mlflow()  # Logging is set up again, because MLflow changes it when it is imported.
    partial = home.root / ".mlflow.db.partial"
    # A killed process may have left these files. No other process uses them, because this process holds the lock.
    for leftover in home.root.glob(f"{partial.name}*"):
        leftover.unlink()
    store = SqlAlchemyStore(f"sqlite:///{partial}", home.artifacts.as_uri())
    store.engine.dispose()
    write_ahead(partial)
    partial.chmod(0o600)
    partial.replace(home.mlflow_database)


@contextmanager
def reaching_mlflow(home: Home) -> Iterator["MlflowClient"]:
    """Provide a client inside the context. Failures of MLflow or of its disk are raised as TrackingError."""
    check_addresses()
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
    except (MlflowException, RequestException, SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        advice = "Check that it runs and that MLFLOW_TRACKING_URI (unset: the home's mlflow.db) is its address."
        if damage_of_database(error):
            advice = RESTORE
        raise TrackingError(f"MLflow at {redacted(uri)} failed: {redacted(cause)}\n{advice}") from error


@contextmanager
def ignoring(*error_codes: str) -> Iterator[None]:
    """Ignore MLflow's errors with one of these codes."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code not in error_codes:
            raise


def experiment_id(client: "MlflowClient", home: Home, name: str) -> str:
    """Return the id of the experiment, even if it was renamed.

    If it does not exist, it is created with an artifact folder that any client can read.
    """
    from mlflow.exceptions import MlflowException

    tags = EXPERIMENT_TAGS | {NAME_TAG: name}
    found = client.get_experiment_by_name(name) or renamed_experiment(client, name)
    if found is None:
        # The location is set, because artifacts would otherwise be written to the working directory.
        location = (home.artifacts / "experiments").as_uri() if is_embedded(home) else None
        try:
            return str(client.create_experiment(name, artifact_location=location, tags=tags))
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:  # If an experiment was found, another process has created it.
                raise
    if found.lifecycle_stage == "deleted":
        raise TrackingError(
            f"experiment {name!r} was deleted in MLflow at {redacted(tracking_uri(home))};\n"
            "restore it there, or choose another experiment with --set tracking.experiment=NAME."
        )
    for tag, value in tags.items():
        # The tag is missing if a user created the experiment in the UI. It differs if an earlier version of rnnlm
        # created the view, which is then replaced.
        if tag not in found.tags or (tag == VIEW_TAG and found.tags[tag] != value):
            client.set_experiment_tag(found.experiment_id, tag, value)
    return str(found.experiment_id)


def renamed_experiment(client: "MlflowClient", name: str) -> "Experiment | None":
    """Return the experiment that had this name when rnnlm last used it, or None if there is none or it was deleted."""
    found = (one for one in all_pages(client.search_experiments) if one.tags.get(NAME_TAG) == name)
    return max(found, key=lambda one: one.last_update_time or 0, default=None)


@contextmanager
def best_effort(what: str) -> Iterator[None]:
    """Log a failure of MLflow inside the context as a warning about `what`."""
    try:
        yield
    except TrackingError as error:
        logger.warning("%s could not be logged to MLflow: %s", what, error)


def all_pages(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield every item of one of MLflow's paged searches."""
    token = None
    while True:
        page = search(max_results=100, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
