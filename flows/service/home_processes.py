"""Find and stop the processes of an rnnlm home by their environment, and find the process that occupies a port."""

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
CHECKPOINT_SECONDS = 60.0  # The timeout in seconds for flow runs to write a checkpoint and end.
STOP_SECONDS = 15.0  # The timeout in seconds for a server to end after SIGTERM.
POLL_SECONDS = 0.1
# The environment variable in which Prefect's worker passes the id of the flow run.
FLOW_RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"


@dataclass
class HomeProcesses:
    services: list[psutil.Process] = field(default_factory=list)  # The servers and workers that `rnnlm up` has started.
    # The process of each flow run, by the run's id.
    flow_runs: dict[str, psutil.Process] = field(default_factory=dict)


def find_home_processes(home: Home) -> HomeProcesses:
    """Find this user's processes with RNNLM_HOME=home, which are services and flow runs of a worker."""
    found = HomeProcesses()
    for process in psutil.process_iter():
        environment = environment_of(process)
        if environment.get("RNNLM_HOME") != str(home.root):
            continue
        if run_id := environment.get(FLOW_RUN_VARIABLE):
            # Children of a flow run's process are left out, because they have the same environment.
            parent = process.parent()
            if parent is None or environment_of(parent).get(FLOW_RUN_VARIABLE) != run_id:
                found.flow_runs[run_id] = process
        elif SERVICE_VARIABLE in environment:
            found.services.append(process)
    return found


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process, or {} if the process has ended or belongs to another user."""
    try:
        if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
            return {}
        return process.environ()
    except psutil.Error:
        return {}


def stop_home(home: Home) -> bool:
    """Stop the processes of `rnnlm up`, even if `rnnlm up` itself was killed.

    Return True if any process was running.
    """
    running = read_running(home)
    if running is not None:
        # The timeout is the sum of the timeouts of the other processes, because `rnnlm up` stops them one after
        # another.
        stop_processes([psutil.Process(running.pid)], CHECKPOINT_SECONDS + 4 * STOP_SECONDS)
    left = len(stop_flow_runs(home)) + stop_services(home)
    return running is not None or left > 0


def stop_flow_runs(home: Home, seconds: float = CHECKPOINT_SECONDS) -> list[str]:
    """End the rnnlm home's flow runs and return their ids. Each run writes a checkpoint and reports its state."""
    found = find_home_processes(home).flow_runs
    stop_processes(list(found.values()), seconds)
    return list(found)


def stop_services(home: Home) -> int:
    """End the services that a killed `rnnlm up` has left, and return the number of processes."""
    return stop_processes(find_home_processes(home).services, STOP_SECONDS)


def stop_processes(processes: list[psutil.Process], seconds: float) -> int:
    """Send SIGTERM to processes, and SIGKILL to those that still run after `seconds`. Return the number of processes.

    SIGKILL is also sent to their children.
    """
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
    """Return True if the process is running and not a zombie.

    A process becomes a zombie if it ends while the worker that started it is paused.
    """
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def send(signal: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        signal()


def check_port(port: int, option: str) -> None:
    """Raise ConfigError with the name and id of the process if another process listens on the port."""
    with socket.socket() as probe:
        # With SO_REUSEADDR, the port of a server that has just ended counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} is not free: {listener(port) or error.strerror};\n"
                f"stop that process, or choose another port with {option}"
            ) from error


def listener(port: int) -> str:
    """Return a text such as `process 4711 listens there (python3 -m http.server)`, or "" if no process listens."""
    for process in psutil.process_iter():
        try:
            connections = process.net_connections("tcp")
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections):
                # Line feeds are replaced, because the message shows the command in one line.
                command = " ".join(" ".join(process.cmdline()).split())
                return f"process {process.pid} listens there ({command[:100]})"
        except psutil.Error:  # The process has ended, or belongs to another user.
            continue
    return ""
