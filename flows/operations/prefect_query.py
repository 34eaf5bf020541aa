"""Questions to a Prefect API by plain HTTP: importing Prefect's client takes longer than all of them."""

import functools
from typing import Any

import httpx

from flows.operations.home_password import credentials
from flows.operations.prefect_server import configured_credentials

# Types of a flow run's state
UNFINISHED = ["RUNNING", "PENDING", "CANCELLING", "PAUSED"]
FINISHED = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]


class PrefectQuery:
    """password: `user:password`, by default Prefect's own setting. trust_env: use HTTP proxies from the environment."""

    def __init__(self, api: str, password: str | None = None, *, trust_env: bool = True) -> None:
        self.api = api
        self.auth = credentials(password) if password else configured_credentials()
        self.trust_env = trust_env

    def post(self, path: str, **body: Any) -> Any:
        """The answer's JSON. httpx.HTTPError if the server does not answer, or refuses."""
        answer = httpx.post(f"{self.api}/{path}", json=body, auth=self.auth, timeout=30, trust_env=self.trust_env)
        return answer.raise_for_status().json()

    @functools.cached_property
    def flow_names(self) -> dict[str, str]:
        """Flow's id → its name."""
        return {flow["id"]: flow["name"] for flow in self.post("flows/filter")}

    def deployment_names(self) -> dict[str, str]:
        """Deployment's id → `flow/deployment`."""
        found = self.post("deployments/filter")
        return {one["id"]: f"{self.flow_names.get(one['flow_id'], '')}/{one['name']}" for one in found}

    def flow_runs(self, states: list[str], order: str, limit: int, **more: Any) -> list[dict[str, Any]]:
        """Runs that no other run has started. more: further conditions on flow runs."""
        chosen = {"state": {"type": {"any_": states}}, "parent_task_run_id": {"is_null_": True}, **more}
        found: list[dict[str, Any]] = self.post("flow_runs/filter", flow_runs=chosen, sort=order, limit=limit)
        return found
