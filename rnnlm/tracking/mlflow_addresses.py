"""Addresses of MLflow's pages for a run, the list of runs, and a registered version."""

import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import (
    RUN_LIST_VIEW,
    TRAINING_VIEW,
    best_effort,
    is_embedded,
    reaching_mlflow,
    tracking_uri,
)

if TYPE_CHECKING:
    pass


def run_url(home: Home, mlflow_run_id: str | None) -> str | None:
    """Return the run's address on the tracking server, or in `mlflow ui` for the SQLite file of the rnnlm home.

    Return None if MLflow has no such run or is unavailable.
    """
    if mlflow_run_id is None:
        return None
    with best_effort("the run's address"), reaching_mlflow(home) as client:
        return run_address(home, client.get_run(mlflow_run_id).info.experiment_id, mlflow_run_id)
    return None


def run_address(home: Home, experiment: str, mlflow_run_id: str) -> str:
    return f"{ui_address(home)}/#/experiments/{experiment}/runs/{mlflow_run_id}?{TRAINING_VIEW}"


def run_list_address(run_url: str) -> str:
    """Return the address of the list of all runs in the run's experiment, which shows their perplexity."""
    return f"{run_url.rpartition('/')[0]}?{RUN_LIST_VIEW}"


def version_address(home: Home, name: str, version: int) -> str:
    return f"{ui_address(home)}/#/models/{name}/versions/{version}?{TRAINING_VIEW}"


def ui_address(home: Home) -> str:
    """Return the environment variable RNNLM_MLFLOW_UI_URL, or the address of the tracking server or of `mlflow ui`.

    The address of `mlflow ui` consists of the host and port in MLFLOW_HOST and MLFLOW_PORT, which `mlflow ui` also
    reads.
    """
    # RNNLM_MLFLOW_UI_URL is needed if workers reach the server by a name that browsers cannot resolve.
    if address := os.environ.get("RNNLM_MLFLOW_UI_URL"):
        return address.rstrip("/")
    uri = tracking_uri(home)
    if uri.startswith(("http://", "https://")):
        return uri.rstrip("/")
    host, port = os.environ.get("MLFLOW_HOST", "127.0.0.1"), os.environ.get("MLFLOW_PORT", "5000")
    return f"http://{host}:{port}"


def ui_answers(home: Home) -> bool:
    """Return True if links to MLflow's pages can be opened now.

    A server that the user has configured is assumed to be running.
    """
    address = urlsplit(ui_address(home))
    if not is_embedded(home) or "RNNLM_MLFLOW_UI_URL" in os.environ:
        return True
    try:
        with socket.create_connection((str(address.hostname), address.port or 80), timeout=1):
            return True
    except OSError:
        return False
