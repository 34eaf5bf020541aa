"""Questions to a Prefect API by plain HTTP: importing Prefect's client takes longer than all of them."""

import functools
import os
import time
from datetime import UTC, datetime
from typing import Any

import httpx

from flows.operations.home_servers import credentials
from flows.operations.schedule_times import soonest_time
from rnnlm.errors import ConfigError
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.proxies import SOCKS_OF_HTTPX, proxy_problem

BUSY_SECONDS = 15.0
STARTUP_SECONDS = 120.0  # a server takes long to start on a busy machine
WORK_POOL = "rnnlm"  # as in prefect.yaml
# Types of a flow run's state
UNFINISHED = ["RUNNING", "PENDING", "CANCELLING", "PAUSED"]
FINISHED = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]
SCHEDULED_TAG = "auto-scheduled"  # Prefect gives it to what its scheduler has planned; a resumed run keeps it


def health_problem(address: str, *, trust_env: bool = True) -> str:
    """Return why the Prefect API or MLflow server at `address` does not answer, or "" if it does.

    A status below 500 is an answer: a proxy may guard /health. trust_env: use HTTP proxies from the environment.
    """
    if trust_env and (problem := proxy_problem(address, SOCKS_OF_HTTPX)):
        return problem
    try:
        status = httpx.get(f"{address.rstrip('/')}/health", timeout=10, trust_env=trust_env).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return "" if status < 500 else f"status {status}"


def access_problem(address: str) -> str:
    """Return why the Prefect API at `address` cannot be used with PREFECT_API_AUTH_STRING, or "" if it can.

    /health answers everybody, so another home's server at the port looks healthy.
    """
    if problem := health_problem(address):
        return problem
    password = os.environ.get("PREFECT_API_AUTH_STRING")
    try:
        login = credentials(password) if password else None
        status = httpx.get(f"{address.rstrip('/')}/admin/version", auth=login, timeout=10).status_code
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    refused = status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    return "the one there asks for another password, so it may be another home's" if refused else ""


def is_night(run: dict[str, Any]) -> bool:
    """Return True if a schedule has started the run, and not a person or another program."""
    return SCHEDULED_TAG in run["tags"]


def wait_for_server(address: str) -> None:
    """Return once the configured server answers; it may just have been started. Otherwise ConfigError."""
    if not poll_until(lambda: not health_problem(address), STARTUP_SECONDS):
        raise ConfigError(
            f"PREFECT_API_URL={address}: no Prefect server answered within {STARTUP_SECONDS:.0f} s "
            f'({health_problem(address)});\nstart one: eval "$(rnnlm env)", prefect server start'
        )


class PrefectQuery:
    """Questions to a Prefect server.

    password: `user:password`, by default Prefect's own setting. trust_env: use HTTP proxies from the environment.
    """

    def __init__(self, api: str, password: str | None = None, *, trust_env: bool = True) -> None:
        password = password or os.environ.get("PREFECT_API_AUTH_STRING")
        self.api = api
        self.auth = credentials(password) if password else None
        self.trust_env = trust_env

    def post(self, path: str, **body: Any) -> Any:
        """Return the answer's JSON. Raise httpx.HTTPError if the server does not answer, or refuses.

        A server whose SQLite file is busy answers 503, without having done anything; it is asked again.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            answer = httpx.post(f"{self.api}/{path}", json=body, auth=self.auth, timeout=30, trust_env=self.trust_env)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                return answer.raise_for_status().json()
            time.sleep(0.5)

    @functools.cached_property
    def flow_names(self) -> dict[str, str]:
        """Return each flow's name by its id."""
        return {flow["id"]: flow["name"] for flow in self.post("flows/filter")}

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Return each deployment by `flow/deployment`."""
        found = self.post("deployments/filter")
        return {f"{self.flow_names.get(one['flow_id'], '')}/{one['name']}": one for one in found}

    def flow_runs(self, states: list[str], order: str, limit: int, **more: Any) -> list[dict[str, Any]]:
        """Return runs that no other run has started. more: further conditions on flow runs."""
        chosen = {"state": {"type": {"any_": states}}, "parent_task_run_id": {"is_null_": True}, **more}
        found: list[dict[str, Any]] = self.post("flow_runs/filter", flow_runs=chosen, sort=order, limit=limit)
        return found

    def last_runs(self, deployment_id: str, states: list[str]) -> list[dict[str, Any]]:
        """Return the deployment's last runs in one of these states, the newest first."""
        return self.flow_runs(states, "START_TIME_DESC", 100, deployment_id={"any_": [deployment_id]})

    def next_starts(self) -> dict[str, datetime]:
        """Return when the next run of each `flow/deployment` starts, the soonest first.

        Prefect plans a few runs of each, some seconds after a schedule is made; until then the time is computed.
        """
        deployments = self.deployments()
        names = {one["id"]: name for name, one in deployments.items()}
        soonest: dict[str, datetime] = {}
        future = {"after_": datetime.now(UTC).isoformat()}  # what is due waits already
        for run in self.flow_runs(["SCHEDULED"], "EXPECTED_START_TIME_ASC", 200, expected_start_time=future):
            if run["deployment_id"] in names and run["state"]["name"] == "Scheduled":  # the others are tried again
                soonest.setdefault(names[run["deployment_id"]], datetime.fromisoformat(run["expected_start_time"]))
        for name, deployment in deployments.items():
            if name not in soonest and (computed := soonest_time(deployment)):
                soonest[name] = computed
        return dict(sorted(soonest.items(), key=lambda item: item[1]))

    def logs(self, run_id: str, logger: str, **more: Any) -> list[dict[str, Any]]:
        """Return the run's log records, the newest first. logger: the beginning of its name."""
        chosen = {"flow_run_id": {"any_": [run_id]}, **more}
        found = self.post("logs/filter", logs=chosen, sort="TIMESTAMP_DESC", limit=50)
        return [record for record in found if record["name"].startswith(logger)]
