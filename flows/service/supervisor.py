"""`rnnlm up`: start Prefect, MLflow and a worker in order, restart what dies, and stop all of it in order.

    1. prefect    API, scheduler and UI                    awaited: /api/health
       mlflow     UI over the home's database              awaited: /health
    2. deploy     work pool, deployments, automations      awaited: exit code
    3. worker     runs the flows                           awaited: online in the work pool
    4. resume     runs that the last stop has interrupted

Stopping: the worker is paused, the flow runs write their checkpoints and end, then worker, MLflow and Prefect stop.
"""

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType

import httpx

from flows.operations.home_password import client_variables, credentials, home_password, server_variables
from flows.operations.prefect_environment import server_environment
from flows.operations.prefect_names import WORK_POOL
from flows.operations.prefect_query import PrefectQuery
from flows.operations.prefect_server import health_problem, server_command
from flows.operations.run_locks import has_dead_runs
from flows.operations.running_home import LOCK, RunningHome, write_running
from flows.service.home_processes import stop_flow_runs, stop_services
from flows.service.ports import HOST, check_port
from flows.service.service_logs import LogReader, log_file
from flows.service.service_process import ServiceProcess
from rnnlm.errors import ConfigError, RnnlmError
from rnnlm.home import Home
from rnnlm.tracking.mlflow_accounts import APP_NAME, login_variables
from rnnlm.tracking.mlflow_store import embedded_uri, prepare_store

logger = logging.getLogger(__name__)
START_SECONDS = 180.0  # for a server to answer, also on a busy machine
CHECKPOINT_SECONDS = 60.0  # for flow runs to write a checkpoint and end
STOP_SECONDS = 15.0  # for a server to end
WATCH_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0  # between two starts of a service that dies at once
DEAD_RUN_SECONDS = 20.0  # between two looks for flow runs whose process was killed
STABLE_SECONDS = 60.0  # a service that lived as long starts again without delay


class StopRequestedError(Exception):
    """Ctrl-C or SIGTERM arrived while a server was starting."""


class Supervisor:
    """The servers of one home. show: called with each line for the console."""

    def __init__(self, home: Home, prefect_port: int, mlflow_port: int, show: Callable[[str], None]) -> None:
        self.home = home
        self.show = show
        self.running = RunningHome(
            pid=os.getpid(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            prefect_port=prefect_port,
            mlflow_port=mlflow_port,
        )
        self.stopping = threading.Event()
        self.password = password = home_password(home)
        self.environment = service_environment(home, self.running, password)
        self.prefect_query = PrefectQuery(self.running.prefect_api, password, trust_env=False)
        self.prefect = self.service("prefect", server_command(prefect_port), self.prefect_problem)
        self.mlflow = self.service("mlflow", mlflow_command(home, self.running), self.mlflow_problem)
        self.deploy = self.service("deploy", [sys.executable, "-m", "flows.command_line", "deploy"], lambda: "")
        self.worker = self.service("worker", worker_command(self.running), self.worker_problem)
        self.services = [self.prefect, self.mlflow, self.worker]
        if "MLFLOW_TRACKING_URI" in os.environ:  # another server
            self.services.remove(self.mlflow)
        self.readers = {service: LogReader(service.log) for service in [*self.services, self.deploy]}
        self.begun: dict[str, float] = {}  # service → when it was last started
        self.failures: dict[str, int] = {}  # service → starts since it was last stable

    def service(self, name: str, command: list[str], problem: Callable[[], str]) -> ServiceProcess:
        return ServiceProcess(name, command, self.environment, log_file(self.home, name), problem)

    def run(self, when_ready: Callable[[RunningHome], None]) -> None:
        """Start everything, call when_ready, and return after SIGINT or SIGTERM, when all has stopped.

        ConfigError if a server of this home runs already, a port is taken, or a server does not start.
        """
        with self.home.lock_if_free(LOCK) as free:
            if not free:
                raise ConfigError(f"{self.home.root}: its servers are up already; see rnnlm status")
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
        left = stop_services(self.home, STOP_SECONDS)  # a worker's flow runs end with it, and are resumed
        if left:
            self.say(f"stopped {left} processes that a killed `rnnlm up` had left")
        check_port(self.running.prefect_port, "--port")
        check_port(self.running.mlflow_port, "--mlflow-port")
        self.environment.update(login_variables(self.home, *credentials(self.password)))
        prepare_store(self.home)  # before MLflow's server and a first run could create it at the same time
        first = [service for service in self.services if service is not self.worker]
        for service in first:
            self.start(service)
        for service in first:
            self.wait_until_healthy(service)
        self.say("creating the deployments")
        self.deploy.start()
        self.wait(lambda: self.deploy.exit_code() is not None, "the deployments were not created")
        if self.deploy.exit_code():
            raise ConfigError(f"the deployments could not be created:\n{self.readers[self.deploy].last_line()}")
        self.start(self.worker)
        self.wait_until_healthy(self.worker)
        self.running = replace(self.running, ready=True)
        write_running(self.home, self.running)

    def start(self, service: ServiceProcess) -> None:
        self.say(f"starting {service.name}")
        self.begun[service.name] = time.monotonic()
        service.start()

    def wait_until_healthy(self, service: ServiceProcess) -> None:
        def answered_or_ended() -> bool:
            return service.exit_code() is not None or not service.problem()

        self.wait(answered_or_ended, f"{service.name} did not answer")
        if service.exit_code() is not None:
            last = self.readers[service].last_line()
            raise RnnlmError(f"{service.name} ended with code {service.exit_code()} while starting:\n{last}")

    def wait(self, condition: Callable[[], bool], failure: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise RnnlmError(f"{failure} within {START_SECONDS:.0f} s; see rnnlm logs")
            self.poll()

    def poll(self) -> None:
        """Show new log lines; StopRequestedError if it is time to stop."""
        self.show_logs()
        if self.stopping.wait(WATCH_SECONDS):
            raise StopRequestedError

    def show_logs(self) -> None:
        for service, reader in self.readers.items():
            for line in reader.new_lines():
                self.show(f"{service.name:<8} {line}")

    def watch(self) -> None:
        """Start again what has ended, until it is time to stop."""
        restart_at: dict[str, float] = {}
        look_at = time.monotonic() + DEAD_RUN_SECONDS
        while True:
            self.poll()
            if time.monotonic() >= look_at:
                self.restart_dead_runs()
                look_at = time.monotonic() + DEAD_RUN_SECONDS
            for service in self.services:
                service.rotate_log()
                code, now = service.exit_code(), time.monotonic()
                if code is None:
                    continue
                if service.name not in restart_at:
                    stable = now - self.begun[service.name] > STABLE_SECONDS
                    failures = 0 if stable else self.failures.get(service.name, 0)
                    self.failures[service.name] = failures + 1
                    delay = min(2.0**failures, LONGEST_DELAY_SECONDS)
                    restart_at[service.name] = now + delay
                    self.say(f"{service.name} ended with code {code}; starting it again in {delay:.0f} s")
                elif now >= restart_at[service.name]:
                    del restart_at[service.name]
                    service.stop(0)  # children that the killed process has left
                    self.start(service)
                    if service is self.worker:  # runs end with their worker
                        self.settle_and_resume()

    def restart_dead_runs(self) -> None:
        """Notice flow runs whose process was killed while the worker lives: out of memory, or `kill -9`."""
        with contextlib.suppress(httpx.HTTPError):  # Prefect is being started again; the next look will tell
            if self.deploy.exit_code() is not None and has_dead_runs(self.home, self.prefect_query):
                self.say("the process of a flow run was killed; the run is settled, and resumed if it can be")
                self.settle_and_resume()

    def settle_and_resume(self) -> None:
        """`rnnlm deploy` settles dead runs and starts interrupted ones again."""
        self.deploy.stop(0)
        self.deploy.start()

    def stop_all(self) -> None:
        """The flow runs first, so that they can report their state; idempotent."""
        if self.worker.exit_code() is None and self.worker.process is not None:
            self.worker.pause()
        if stopped := stop_flow_runs(self.home, CHECKPOINT_SECONDS):
            self.say(f"stopped {stopped} flow runs; the next `rnnlm up` resumes them")
        for service in (self.deploy, self.worker, self.mlflow, self.prefect):
            if service.process is not None:
                service.stop(STOP_SECONDS)
        self.show_logs()
        self.say("stopped")

    def say(self, text: str) -> None:
        """A line of our own, on the console and in the log."""
        self.show(f"{'up':<8} {text}")
        with log_file(self.home, "up").open("a", encoding="utf-8") as log:
            print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}", file=log)

    def prefect_problem(self) -> str:
        return health_problem(self.running.prefect_api, trust_env=False)

    def mlflow_problem(self) -> str:
        return health_problem(self.running.mlflow_url, trust_env=False)

    def worker_problem(self) -> str:
        """Empty if the worker that was started last is online in the work pool."""
        try:
            workers = self.prefect_query.post(f"work_pools/{WORK_POOL}/workers/filter")
            online = {worker["name"] for worker in workers if worker["status"] == "ONLINE"}
        except (httpx.HTTPError, ValueError) as error:
            return str(error)
        return "" if worker_name(self.running) in online else "not online yet"


def service_environment(home: Home, running: RunningHome, password: str) -> dict[str, str]:
    """For servers, worker and flow runs: this home, these ports, this `user:password`."""
    return {
        **os.environ,
        **server_environment(home),
        **client_variables(password),
        **server_variables(password, running.prefect_port),
        "PREFECT_HOME": str(home.prefect),
        "PREFECT_API_URL": running.prefect_api,
        "MLFLOW_HOST": HOST,  # flows build links to MLflow's UI from these two
        "MLFLOW_PORT": str(running.mlflow_port),
        "PYTHONUNBUFFERED": "1",
    }


def mlflow_command(home: Home, running: RunningHome) -> list[str]:
    """MLflow's server with one account; it refuses other names in the header Host, and other sites' pages."""
    names = [f"{name}:{running.mlflow_port}" for name in (HOST, "localhost")]
    address = ["--host", HOST, "--port", str(running.mlflow_port), "--workers", "1"]
    address += ["--uvicorn-opts", "--log-level warning", "--app-name", APP_NAME]
    address += ["--allowed-hosts", ",".join(names), "--cors-allowed-origins", ",".join(f"http://{n}" for n in names)]
    store = ["--backend-store-uri", embedded_uri(home), "--default-artifact-root", home.artifacts.as_uri()]
    return [sys.executable, "-m", "mlflow", "server", *address, *store]


def worker_command(running: RunningHome) -> list[str]:
    """A worker of all queues; without a GPU, of the queue `default`."""
    queues = [] if shutil.which("nvidia-smi") else ["--work-queue", "default"]
    name = ["--name", worker_name(running), "--install-policy", "never"]
    return [sys.executable, "-m", "prefect", "worker", "start", "--pool", WORK_POOL, *name, *queues]


def worker_name(running: RunningHome) -> str:
    """Different for each `rnnlm up`: a killed worker stays online in the pool for a minute."""
    return f"{socket.gethostname()}-{running.pid}"


def start_detached(home: Home, prefect_port: int, mlflow_port: int) -> "subprocess.Popen[bytes]":
    """Run `rnnlm up` in a process of its own that outlives the terminal; its output goes to the log `up`."""
    command = [sys.executable, "-m", "flows.command_line", "up"]
    command += ["--port", str(prefect_port), "--mlflow-port", str(mlflow_port), "--quiet"]
    with log_file(home, "up").open("ab") as log:
        return subprocess.Popen(
            command,
            env=os.environ | {"RNNLM_HOME": str(home.root)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
