"""A scheduled flow that sets a final state for runs of killed processes, and restarts interrupted runs."""

from prefect.client.orchestration import get_client

from flows.operations.console import show_library_lines
from flows.operations.dead_runs import settle_dead_runs
from flows.operations.flow_start import hold_run_lock, rnnlm_flow
from flows.operations.interrupted_runs import resume_interrupted
from rnnlm.storage.home import find_home


@rnnlm_flow("settle")
def settle_flow() -> int:
    """Set a final state for dead runs, and restart interrupted runs.

    Return the number of flow, task and MLflow runs that got a final state.
    """
    show_library_lines()
    hold_run_lock()
    home = find_home()
    settled = settle_dead_runs(home)
    with get_client(sync_client=True) as client:
        resume_interrupted(client, home)
    return settled
