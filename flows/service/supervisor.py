"""`rnnlm up`: start Prefect, MLflow and a worker in order, restart them if they die, and stop them in order.

    1. prefect    API, scheduler and UI                    awaited: /api/health
       mlflow     UI over the home's database              awaited: /health
    2. deploy     work pool, deployments, automations;     awaited: exit code
                  runs that the last stop interrupted are started again
    3. worker     runs the flows                           awaited: online in the work pool

To stop, the worker is suspended first, and the flow runs write their checkpoints and end. Then the worker, MLflow and
Prefect are stopped.
"""

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType

import httpx

from flows.operations.deployments import has_gpu
from flows.operations.home_servers import LOCK, RunningHome, credentials, home_password, write_running
from flows.operations.interrupted_runs import crashed_runs, mark_stopped
from flows.operations.prefect_environment import server_variables
from flows.operations.prefect_query import WORK_POOL, PrefectQuery, health_problem
from flows.operations.run_locks import find_dead_runs
from flows.service.home_processes import HOST, STOP_SECONDS, check_port, stop_flow_runs, stop_services
from flows.service.service_process import ServiceProcess, last_lines, log_file
from rnnlm.errors import ConfigError, HomeError, RnnlmError
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_accounts import APP_NAME, login_variables
from rnnlm.tracking.mlflow_store import embedded_uri, prepare_store

START_SECONDS = 180.0  # The timeout in seconds for the start of a server, which may be slow on a busy machine.
WATCH_SECONDS = 0.5
# The largest length in bytes of the temporary folder's path. The path of a socket in this folder may have at most 107
# bytes.
LONGEST_TEMPORARY_FOLDER = 70
DEAD_RUN_SECONDS = 20.0  # Seconds between two checks for flow runs whose process was killed.
# The messages about a dead run by the type of its last state. A state of another type has the message of RUNNING.
WHAT_HAPPENED = {
    "CANCELLING": "it was cancelled",
    "CRASHED": "it was interrupted, and is resumed if it can be",
    "RUNNING": "its process was killed; it is settled, and resumed if it can be",
}
RNNLM = [sys.executable, "-m", "flows.command_line"]


class StopRequestedError(Exception):
    """The exception that is raised when Ctrl-C or SIGTERM arrives while a server is starting."""


class Supervisor:
    """The supervisor of the servers of one rnnlm home. It calls `show` with each line for the console."""

    def __init__(self, home: Home, prefect_port: int, mlflow_port: int, show: Callable[[str], None]) -> None:
        self.home = home
        self.show = show
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.running = RunningHome(os.getpid(), started, prefect_port, mlflow_port)
        self.stopping = threading.Event()
        self.noticed: set[str] = set()  # The ids of dead flow runs that were already reported.
        self.password = home_password(home)
        self.query = PrefectQuery(self.running.prefect_api, self.password, trust_env=False)
        environment = service_environment(home, self.running)
        # With -P, nothing is imported from the working directory.
        prefect_server = [sys.executable, "-P", "-m", "flows.operations.prefect_server", "--port", str(prefect_port)]
        self.prefect = ServiceProcess(home, "prefect", prefect_server, environment)
        self.mlflow = ServiceProcess(home, "mlflow", mlflow_command(home, self.running), environment)
        self.deploy = ServiceProcess(home, "deploy", [*RNNLM, "deploy"], environment)
        self.worker = ServiceProcess(home, "worker", worker_command(self.running), environment)
        self.servers = {self.prefect: self.running.prefect_api, self.mlflow: self.running.mlflow_url}
        if "MLFLOW_TRACKING_URI" in os.environ:  # No MLflow server is started if the user has configured another one.
            del self.servers[self.mlflow]

    def run(self, when_ready: Callable[[RunningHome], None]) -> None:
        """Start everything, call when_ready, and wait for SIGINT or SIGTERM. Return when everything has stopped.

        Raise ConfigError if a server of this rnnlm home is already running, a port is occupied, or a server does not
        start.
        """
        with self.home.lock_if_free(LOCK) as free:
            if not free:
                raise ConfigError(f"{self.home.root}: the servers of this home are already running; see rnnlm status")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self.request_stop)
            write_running(self.home, self.running)
            try:
                self.start_all()
                when_ready(self.running)
                self.watch()
            except StopRequestedError:
                pass
            finally:
                self.stop_all()

    def request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping.set()

    def start_all(self) -> None:
        left = stop_services(self.home)  # The flow runs of the worker end together with it, and are resumed later.
        if left:
            self.say(f"stopped {left} processes that a killed `rnnlm up` had left")
        check_port(self.running.prefect_port, "--port")
        check_port(self.running.mlflow_port, "--mlflow-port")
        self.worker.environment["TMPDIR"] = temporary_folder(self.home)
        self.mlflow.environment |= login_variables(self.home, *credentials(self.password))
        # The MLflow store is created here, because MLflow's server and a first run might otherwise create it at the
        # same time.
        prepare_store(self.home)
        for server in self.servers:
            self.start(server)
        for server, address in self.servers.items():
            self.wait(server, functools.partial(answers, address))
        self.say("creating the deployments")
        self.deploy.start()
        self.wait(self.deploy, lambda: False)
        self.start(self.worker)
        self.wait(self.worker, self.worker_is_online)
        self.running = replace(self.running, ready=True)
        write_running(self.home, self.running)

    def start(self, service: ServiceProcess) -> None:
        self.say(f"starting {service.name}")
        service.start()

    def wait(self, service: ServiceProcess, ready: Callable[[], bool]) -> None:
        """Wait until the service is ready or, for `deploy`, has ended with code 0.

        If the service fails, raise RnnlmError with the last line of its log.
        """
        deadline = time.monotonic() + START_SECONDS
        while (code := service.exit_code()) is None and not ready():
            if time.monotonic() > deadline:
                raise RnnlmError(f"{service.name} was not ready within {START_SECONDS:.0f} s; see rnnlm logs")
            self.poll()
        if code is not None and (code or service is not self.deploy):
            last = next(iter(last_lines(service.log, 1)), "no output")
            raise RnnlmError(f"{service.name} ended with code {code} while starting:\n{last}")

    def poll(self) -> None:
        """Show new log lines. Raise StopRequestedError if a stop was requested."""
        self.show_logs()
        if self.stopping.wait(WATCH_SECONDS):
            raise StopRequestedError

    def show_logs(self) -> None:
        for service in (*self.servers, self.worker, self.deploy):
            for line in service.reader.new_lines():
                self.show(f"{service.name:<8} {line}")

    def watch(self) -> None:
        """Restart services that have ended, until a stop is requested."""
        look_at = time.monotonic() + DEAD_RUN_SECONDS
        while True:
            self.poll()
            if time.monotonic() >= look_at:
                self.restart_dead_runs()
                look_at = time.monotonic() + DEAD_RUN_SECONDS
            for service in (*self.servers, self.worker):
                # The servers must continue even if the log cannot be written because the disk is full.
                with contextlib.suppress(OSError):
                    service.rotate_log()
                self.keep_running(service)

    def keep_running(self, service: ServiceProcess) -> None:
        code = service.exit_code()
        if code is None:
            return
        if service.restart_at is None:
            delay = service.plan_restart()
            self.say(f"{service.name} ended with code {code}; starting it again in {delay:.0f} s")
        elif time.monotonic() >= service.restart_at:
            service.stop(0)  # Kill the children of the dead process.
            self.start(service)
            if service is self.worker:  # The flow runs have ended together with their worker.
                self.settle_and_resume()

    def restart_dead_runs(self) -> None:
        """Report and restart flow runs whose process was killed while the worker kept running."""
        # Prefect may be restarting. In this case, the next check finds the runs.
        with contextlib.suppress(httpx.HTTPError):
            if self.deploy.exit_code() is None:
                return
            crashed = crashed_runs(self.query, self.running.started)
            new = [run for run in crashed if run["id"] not in self.noticed]
            self.noticed |= {run["id"] for run in new}
            dead = {run["id"]: run for run in (*find_dead_runs(self.home, self.query), *new)}
            for run in dead.values():
                state = run["state"]["type"]
                self.say(f"flow run {run['name']}: {WHAT_HAPPENED.get(state, WHAT_HAPPENED['RUNNING'])}")
            if dead:
                self.settle_and_resume()

    def settle_and_resume(self) -> None:
        """Run `rnnlm deploy`, which gives dead runs a final state and restarts interrupted ones."""
        self.deploy.stop(0)
        self.deploy.start()

    def stop_all(self) -> None:
        """Stop the flow runs first, so that they can report their state, and then all services.

        This method may be called again.
        """
        self.worker.pause()
        stopped = stop_flow_runs(self.home)
        for service in (self.deploy, self.worker):
            service.stop(STOP_SECONDS)
        if stopped:
            # If Prefect has already ended, it sets these runs to Crashed at its next start.
            with contextlib.suppress(httpx.HTTPError):
                # The runs are marked after the worker has ended, because a running worker would set them to Crashed.
                mark_stopped(self.query, stopped)
            self.say(f"flow runs stopped: {len(stopped)}; the next `rnnlm up` resumes them")
        for service in (self.mlflow, self.prefect):
            service.stop(STOP_SECONDS)
        self.show_logs()
        self.say("stopped")

    def say(self, text: str) -> None:
        """Print a message of the supervisor on the console, and add it to the log unless the disk is full."""
        self.show(f"{'up':<8} {text}")
        with (
            contextlib.suppress(OSError, HomeError),
            log_file(self.home, "up").open("a", encoding="utf-8") as log,
        ):
            print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}", file=log)

    def worker_is_online(self) -> bool:
        """Return True if the worker that was started last is online in the work pool."""
        try:
            workers = self.query.post(f"work_pools/{WORK_POOL}/workers/filter")
        except (httpx.HTTPError, ValueError):
            return False
        return worker_name(self.running) in {one["name"] for one in workers if one["status"] == "ONLINE"}


def temporary_folder(home: Home) -> str:
    """Create an empty folder for temporary files of the worker and its flow runs. Only this user can enter it.

    Prefect's worker creates a folder with a fixed name for temporary files. In the system's common temporary folder,
    this would fail for a second user.
    """
    folder = home.temporary / "worker"
    if len(os.fsencode(folder)) > LONGEST_TEMPORARY_FOLDER:
        return tempfile.mkdtemp(prefix="rnnlm-worker-")
    home.make(home.temporary)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


def answers(address: str) -> bool:
    return not health_problem(address, trust_env=False)


def service_environment(home: Home, running: RunningHome) -> dict[str, str]:
    """Return the environment of servers, worker and flow runs, with the rnnlm home, its ports and its password."""
    return {
        **os.environ,
        **server_variables(home, running),
        "MLFLOW_HOST": HOST,  # Flows build links to MLflow's UI from these two variables.
        "MLFLOW_PORT": str(running.mlflow_port),
        "PYTHONUNBUFFERED": "1",
    }


def mlflow_command(home: Home, running: RunningHome) -> list[str]:
    """Return the command that starts MLflow's server with a single account.

    The server refuses requests with an unknown name in the Host header, and requests from pages of other sites.
    """
    names = [f"{name}:{running.mlflow_port}" for name in (HOST, "localhost")]
    address = ["--host", HOST, "--port", str(running.mlflow_port), "--workers", "1"]
    address += ["--uvicorn-opts", "--log-level warning", "--app-name", APP_NAME]
    address += ["--allowed-hosts", ",".join(names), "--cors-allowed-origins", ",".join(f"http://{n}" for n in names)]
    store = ["--backend-store-uri", embedded_uri(home), "--default-artifact-root", home.artifacts.as_uri()]
    return [sys.executable, "-m", "mlflow", "server", *address, *store]


def worker_command(running: RunningHome) -> list[str]:
    """Return the command that starts a worker. Without a GPU, the worker only takes runs from the `default` queue."""
    queues = [] if has_gpu() else ["--work-queue", "default"]
    name = ["--name", worker_name(running), "--install-policy", "never"]
    return [sys.executable, "-m", "prefect", "worker", "start", "--pool", WORK_POOL, *name, *queues]


def worker_name(running: RunningHome) -> str:
    """Return a different worker name for each `rnnlm up`, because Prefect lists a killed worker for a minute."""
    return f"{socket.gethostname()}-{running.pid}"


def up_command_line(prefect_port: int, mlflow_port: int) -> list[str]:
    """Return the command `rnnlm up` for a process without a terminal, whose output goes to the log `up`."""
    return [*RNNLM, "up", "--quiet", "--port", str(prefect_port), "--mlflow-port", str(mlflow_port)]


def start_detached(home: Home, prefect_port: int, mlflow_port: int) -> "subprocess.Popen[bytes]":
    """Start `rnnlm up` in a separate process that continues after the terminal is closed."""
    with log_file(home, "up").open("ab") as log:
        return subprocess.Popen(
            up_command_line(prefect_port, mlflow_port),
            env=os.environ | {"RNNLM_HOME": str(home.root)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
