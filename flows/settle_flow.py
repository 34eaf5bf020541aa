"""Runs whose process was killed get a truthful state, on a schedule: no person has to look after the night's runs."""

from prefect import flow

from flows.operations.dead_runs import ON_RUNNING, settle_dead_runs
from rnnlm.home import find_home


@flow(name="settle", flow_run_name="settle dead runs", on_running=ON_RUNNING)
def settle_flow() -> int:
    """How many flow, task and MLflow runs of this home were settled."""
    return settle_dead_runs(find_home())


if __name__ == "__main__":
    settle_flow()
