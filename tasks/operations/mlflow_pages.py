"""Find out whether the MLflow server to which rnnlm's links point belongs to this rnnlm home."""

import os
from typing import Literal
from urllib.parse import urlsplit

import httpx

from rnnlm.storage.home import Home, read_json
from rnnlm.tracking.mlflow_addresses import ui_address, ui_answers
from rnnlm.tracking.mlflow_store import is_embedded

ANSWER_SECONDS = 5.0


def is_elsewhere() -> bool:
    return os.environ.get("MLFLOW_HOST", "127.0.0.1") not in ("127.0.0.1", "localhost")


def server_of_links(home: Home, mlflow_run_id: str) -> Literal["ours", "another", "none"]:
    """Return "ours" if the MLflow server to which the links point belongs to this rnnlm home.

    Otherwise, return "another", or "none" if no server responds.

    The server is asked for a run that only the store of this rnnlm home has. A server that the user has configured
    counts as ours. The password is only sent to the port of this home's `rnnlm up`, because anyone may listen on
    another port.
    """
    if not ui_answers(home):
        return "none"
    if not is_embedded(home) or "RNNLM_MLFLOW_UI_URL" in os.environ or is_elsewhere():
        return "ours"
    address = ui_address(home)
    up = read_json(home.root / "up.json") or {}
    with home.lock_if_free("up") as free:  # `rnnlm up` holds the `up` lock as long as the command is running.
        is_up = not free and up.get("mlflow_port") == urlsplit(address).port
    login = None
    if is_up:
        user, _, password = (home.root / "password").read_text(encoding="utf-8").strip().partition(":")
        login = (user, password)
    try:
        answer = httpx.get(
            f"{address}/api/2.0/mlflow/runs/get",
            params={"run_id": mlflow_run_id},
            auth=login,
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )
    except httpx.HTTPError:
        return "another"  # The program that listens on the port is not MLflow.
    return "ours" if answer.status_code == httpx.codes.OK and mlflow_run_id in answer.text else "another"
