"""Query a Prefect API by plain HTTP, because importing Prefect's client would take longer than all queries."""

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
STARTUP_SECONDS = 120.0  # The timeout in seconds for a server that starts on a busy machine.
WORK_POOL = "rnnlm"  # The name of the work pool in prefect.yaml.
# The types of Prefect's states for flow runs that have not ended and that have ended.
UNFINISHED = ["RUNNING", "PENDING", "CANCELLING", "PAUSED"]
FINISHED = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]
# The tag of runs that Prefect's scheduler has created. A resumed run keeps the tag.
SCHEDULED_TAG = "auto-scheduled"


def health_problem(address: str, *, trust_env: bool = True) -> str:
    """Return the reason why the Prefect API or MLflow server at `address` does not respond, or "" if it does.

    Any status below 500 is sufficient, because a proxy may protect /health. If `trust_env` is True, HTTP proxies from
    the environment are used.
    """
    if trust_env and (problem := proxy_problem(address, SOCKS_OF_HTTPX)):
        return problem
    try:
        status = httpx.get(f"{address.rstrip('/')}/health", timeout=10, trust_env=trust_env).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return "" if status < 500 else f"status {status}"


def access_problem(address: str) -> str:
    """Return the reason why the Prefect API at `address` cannot be used with PREFECT_API_AUTH_STRING, or "".

    The endpoint /health does not require the password, so a server of another rnnlm home at this port would pass it.
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
    return "a server there asks for another password, so it may belong to another home" if refused else ""


def is_night(run: dict[str, Any]) -> bool:
    """Return True if a schedule started the run, and not a user or another program."""
    return SCHEDULED_TAG in run["tags"]


def wait_for_server(address: str) -> None:
    """Wait until the configured server responds, because it may just have been started.

    Raise ConfigError if it does not respond in time.
    """
    if not poll_until(lambda: not health_problem(address), STARTUP_SECONDS):
        raise ConfigError(
            f"PREFECT_API_URL={address}: no Prefect server answered within {STARTUP_SECONDS:.0f} s "
            f'({health_problem(address)});\nstart one: eval "$(rnnlm env)", prefect server start'
        )


class PrefectQuery:
    """Queries to a Prefect server.

    `password` is `user:password`. By default, the password in Prefect's own setting is used. If `trust_env` is True,
    HTTP proxies from the environment are used.
    """

    def __init__(self, api: str, password: str | None = None, *, trust_env: bool = True) -> None:
        password = password or os.environ.get("PREFECT_API_AUTH_STRING")
        self.api = api
        self.auth = credentials(password) if password else None
        self.trust_env = trust_env

    def post(self, path: str, **body: Any) -> Any:
        """Return the JSON of the response. Raise httpx.HTTPError if the server does not respond or refuses the request.

        If the status is 503, the server's SQLite file is busy and nothing was changed. The request is then repeated for
        some seconds.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            answer = httpx.post(f"{self.api}/{path}", json=body, auth=self.auth, timeout=30, trust_env=self.trust_env)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                return answer.raise_for_status().json()
            time.sleep(0.5)

    @functools.cached_property
    def flow_names(self) -> dict[str, str]:
        """The name of each flow by the flow's id."""
        return {flow["id"]: flow["name"] for flow in self.post("flows/filter")}

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Return all deployments by their names FLOW/NAME."""
        found = self.post("deployments/filter")
        return {f"{self.flow_names.get(one['flow_id'], '')}/{one['name']}": one for one in found}

    def flow_runs(self, states: list[str], order: str, limit: int, **more: Any) -> list[dict[str, Any]]:
        """Return flow runs that were not started by another run. `more` contains further conditions of the query."""
        chosen = {"state": {"type": {"any_": states}}, "parent_task_run_id": {"is_null_": True}, **more}
        found: list[dict[str, Any]] = self.post("flow_runs/filter", flow_runs=chosen, sort=order, limit=limit)
        return found

    def last_runs(self, deployment_id: str, states: list[str]) -> list[dict[str, Any]]:
        """Return the deployment's last runs in one of these states, the newest first."""
        return self.flow_runs(states, "START_TIME_DESC", 100, deployment_id={"any_": [deployment_id]})

    def next_starts(self) -> dict[str, datetime]:
        """Return the time of each deployment's next run by FLOW/NAME, the soonest first.

        Prefect creates a few future runs of each deployment some seconds after a schedule is created. Until then, the
        time is computed.
        """
        deployments = self.deployments()
        names = {one["id"]: name for name, one in deployments.items()}
        soonest: dict[str, datetime] = {}
        # Runs that are already due are left out, because they are only waiting to begin.
        future = {"after_": datetime.now(UTC).isoformat()}
        for run in self.flow_runs(["SCHEDULED"], "EXPECTED_START_TIME_ASC", 200, expected_start_time=future):
            # Runs in other states, such as AwaitingRetry, repeat an earlier run.
            if run["deployment_id"] in names and run["state"]["name"] == "Scheduled":
                soonest.setdefault(names[run["deployment_id"]], datetime.fromisoformat(run["expected_start_time"]))
        for name, deployment in deployments.items():
            if name not in soonest and (computed := soonest_time(deployment)):
                soonest[name] = computed
        return dict(sorted(soonest.items(), key=lambda item: item[1]))

    def logs(self, run_id: str, logger: str, **more: Any) -> list[dict[str, Any]]:
        """Return the run's log records from loggers whose names begin with `logger`, the newest first."""
        chosen = {"flow_run_id": {"any_": [run_id]}, **more}
        found = self.post("logs/filter", logs=chosen, sort="TIMESTAMP_DESC", limit=50)
        return [record for record in found if record["name"].startswith(logger)]
