"""Find the processes that work for a home by their environment, whoever started them."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from flows.service.service_process import SERVICE_VARIABLE
from rnnlm.home import Home
from rnnlm.runtime.polling import poll_until

POLL_SECONDS = 0.1
FLOW_RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"  # set by Prefect's worker


@dataclass
class HomeProcesses:
    services: list[psutil.Process] = field(default_factory=list)  # servers and workers of `rnnlm up`
    flow_runs: dict[str, psutil.Process] = field(default_factory=dict)  # flow run id → the process that runs it


def find_home_processes(home: Home) -> HomeProcesses:
    """This user's processes with RNNLM_HOME=home: services, and flow runs that a worker has started."""
    found = HomeProcesses()
    for process in psutil.process_iter():
        environment = environment_of(process)
        if environment.get("RNNLM_HOME") != str(home.root):
            continue
        if run_id := environment.get(FLOW_RUN_VARIABLE):
            parent = process.parent()  # children of the flow run's process have its environment
            if parent is None or environment_of(parent).get(FLOW_RUN_VARIABLE) != run_id:
                found.flow_runs[run_id] = process
        elif SERVICE_VARIABLE in environment:
            found.services.append(process)
    return found


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Empty for a process that has ended or belongs to another user."""
    try:
        if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
            return {}
        return process.environ()
    except psutil.Error:
        return {}


def stop_flow_runs(home: Home, seconds: float) -> int:
    """End the home's flow runs: each writes a checkpoint and reports its state. Returns how many there were."""
    running = list(find_home_processes(home).flow_runs.values())
    stop_processes(running, seconds)
    return len(running)


def stop_services(home: Home, seconds: float) -> int:
    """End what a killed `rnnlm up` has left behind. Returns how many processes there were."""
    left = find_home_processes(home).services
    stop_processes(left, seconds)
    return len(left)


def stop_processes(processes: list[psutil.Process], seconds: float) -> None:
    """SIGTERM, and SIGKILL to those that still run after `seconds`, with their children."""
    children = [child for process in processes for child in children_of(process)]
    for process in processes:
        send(process.terminate)
    poll_until(lambda: not any(map(runs, processes)), seconds, POLL_SECONDS)
    for process in filter(runs, [*processes, *children]):
        send(process.kill)


def runs(process: psutil.Process) -> bool:
    """False for a zombie: the paused worker that started it cannot take note of its end."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def children_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def send(signal: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        signal()
