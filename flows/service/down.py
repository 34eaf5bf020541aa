"""`rnnlm down`: stop what `rnnlm up` has started, also if that was killed."""

import psutil

from flows.operations.running_home import read_running
from flows.service.home_processes import stop_flow_runs, stop_processes, stop_services
from flows.service.supervisor import CHECKPOINT_SECONDS, STOP_SECONDS
from rnnlm.home import Home


def stop_home(home: Home) -> bool:
    """Returns whether anything was running. What a killed `rnnlm up` has left is stopped too."""
    running = read_running(home)
    if running is not None:
        # It stops everything in order, so it gets time for all of it.
        stop_processes([psutil.Process(running.pid)], CHECKPOINT_SECONDS + 4 * STOP_SECONDS)
    left = stop_flow_runs(home, CHECKPOINT_SECONDS) + stop_services(home, STOP_SECONDS)
    return running is not None or left > 0
