"""Find and stop the processes that work for a home, by their environment, and the one that has taken a port."""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from flows.operations.home_servers import read_running
from flows.service.service_process import SERVICE_VARIABLE
from rnnlm.errors import ConfigError
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home

HOST = "127.0.0.1"
CHECKPOINT_SECONDS = 60.0  # for flow runs to write a checkpoint and end
STOP_SECONDS = 15.0  # for a server to end
POLL_SECONDS = 0.1
FLOW_RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"  # set by Prefect's worker


@dataclass
class HomeProcesses:
    services: list[psutil.Process] = field(default_factory=list)  # servers and workers of `rnnlm up`
    flow_runs: dict[str, psutil.Process] = field(default_factory=dict)  # flow run id → the process that runs it


def find_home_processes(home: Home) -> HomeProcesses:
    """Find this user's processes with RNNLM_HOME=home: services, and flow runs that a worker has started."""
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


def stop_home(home: Home) -> bool:
    """Stop what `rnnlm up` has started, also if that was killed. Returns whether anything was running."""
    running = read_running(home)
    if running is not None:
        # It stops everything in order, so it gets time for all of it.
        stop_processes([psutil.Process(running.pid)], CHECKPOINT_SECONDS + 4 * STOP_SECONDS)
    left = len(stop_flow_runs(home)) + stop_services(home)
    return running is not None or left > 0


def stop_flow_runs(home: Home, seconds: float = CHECKPOINT_SECONDS) -> list[str]:
    """End the home's flow runs: each writes a checkpoint and reports its state. Returns their ids."""
    found = find_home_processes(home).flow_runs
    stop_processes(list(found.values()), seconds)
    return list(found)


def stop_services(home: Home) -> int:
    """End what a killed `rnnlm up` has left behind. Returns how many processes there were."""
    return stop_processes(find_home_processes(home).services, STOP_SECONDS)


def stop_processes(processes: list[psutil.Process], seconds: float) -> int:
    """Send SIGTERM, and SIGKILL to those that still run after `seconds`, with their children. Return their number."""
    children: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            children += process.children(recursive=True)
    for process in processes:
        send(process.terminate)
    poll_until(lambda: not any(map(runs, processes)), seconds, POLL_SECONDS)
    for process in filter(runs, [*processes, *children]):
        send(process.kill)
    return len(processes)


def runs(process: psutil.Process) -> bool:
    """Return False for a zombie: the paused worker that started it cannot take note of its end."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def send(signal: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        signal()


def check_port(port: int, option: str) -> None:
    """Raise ConfigError if another process listens at the port, with that process's name and id."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port of a server that has just ended is free
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} is not free: {listener(port) or error.strerror};\n"
                f"stop it, or choose another port with {option}"
            ) from error


def listener(port: int) -> str:
    """Return a text such as `process 4711 listens there (python3 -m http.server)`, or "" if it cannot be found."""
    for process in psutil.process_iter():
        try:
            connections = process.net_connections("tcp")
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections):
                command = " ".join(" ".join(process.cmdline()).split())  # in one line
                return f"process {process.pid} listens there ({command[:100]})"
        except psutil.Error:  # ended, or another user's
            continue
    return ""
