"""Give runs whose process was killed a final state, on a schedule."""

from prefect import flow

from flows.operations.console import show_library_lines
from flows.operations.dead_runs import settle_dead_runs
from flows.operations.flow_start import hold_run_lock
from rnnlm.home import find_home


@flow(name="settle", flow_run_name="settle dead runs")
def settle_flow() -> int:
    """Return how many flow, task and MLflow runs of this home were settled."""
    show_library_lines()
    hold_run_lock()
    return settle_dead_runs(find_home())
