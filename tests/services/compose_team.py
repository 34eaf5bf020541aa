"""Run the services of deploy/compose.yaml as processes on a loopback address, with the file's commands and variables.

The only replaced values are those of a container network: host names, ports and mounted paths. A process gets exactly
the environment variables of its container, so that the tests find a variable that is missing in the file.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import httpx
import psutil
import yaml

from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from tests.services.postgres_server import Database, unprivileged
from tests.tracking_server import answers

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PATIENCE_SECONDS = 300
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[?-])(?P<default>[^}]*))?\}")
PROGRAMS = {
    "python": [sys.executable],
    "prefect": [sys.executable, "-m", "prefect"],
    "mlflow": [sys.executable, "-m", "mlflow"],
    "rnnlm": [sys.executable, "-m", "flows.command_line"],
}
DOMAIN = "example.org"
CHOSEN = {  # The settings that a user writes to .env.
    "RNNLM_DOMAIN": DOMAIN,
    "RNNLM_TLS": "internal",
    "POSTGRES_PASSWORD": "a/database@password:1",
    "MINIO_ROOT_USER": "s3-user",
    "MINIO_ROOT_PASSWORD": "an-s3-password",
    "PREFECT_SERVER_API_AUTH_STRING": "team:a-prefect-password",
    "MLFLOW_AUTH_ADMIN_PASSWORD": "an-mlflow-password",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": "a-key-for-forms",
    "RNNLM_SERVE_TOKEN": "a-token-of-the-team",
    "RNNLM_MODEL": "rnnlm-alpha",
    "RNNLM_RUNS_PER_WORKER": "1",
}


def example_variables() -> dict[str, str]:
    """Return the environment variables of .env.example. Variables that a user must set are empty."""
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def interpolated(value: Any, variables: dict[str, str]) -> Any:
    """Return the value in which `${NAME:?}` and `${NAME:-default}` are replaced by the rules of Compose."""
    if isinstance(value, dict):
        return {key: interpolated(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [interpolated(one, variables) for one in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = variables.get(match["name"], "")
        if not found and match["kind"] == "?":
            raise KeyError(match["name"])
        return found or match["default"] or ""

    return VARIABLE.sub(replace, value)


def read_services(variables: dict[str, str]) -> dict[str, dict[str, Any]]:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, dict[str, Any]] = interpolated(yaml.safe_load(text)["services"], variables)
    return services


def image_variables() -> dict[str, str]:
    """Return the environment variables that the image sets with ENV."""
    [block] = re.findall(r"^ENV (.*?)(?<!\\)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M | re.S)
    return dict(pair.split("=", 1) for pair in block.replace("\\\n", " ").split())


class Team:
    """The services of deploy/compose.yaml, which can be started, killed and queried."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.services = read_services(example_variables() | CHOSEN)
        self.ports = {name: free_port() for name in ("postgres", "s3", "prefect", "mlflow", "serve")}
        self.database = Database(programs, self.ports["postgres"], CHOSEN["POSTGRES_PASSWORD"])
        self.processes: dict[str, psutil.Process] = {}
        self.logs: list[IO[bytes]] = []

    @property
    def prefect_api(self) -> str:
        return f"http://127.0.0.1:{self.ports['prefect']}/api"

    @property
    def mlflow_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['mlflow']}"

    @property
    def s3_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    def located(self, value: str) -> str:
        """Return the value with the containers' addresses and paths replaced by those of this machine."""
        for name, port in (("prefect", "4200"), ("mlflow", "5000"), ("s3", "9000")):
            value = value.replace(f"{name}:{port}", f"127.0.0.1:{self.ports[name]}")
            if value in (port, f"--port={port}"):
                value = value.replace(port, str(self.ports[name]))
        here = {"postgres": "127.0.0.1", "5432": str(self.ports["postgres"]), "8000": str(self.ports["serve"])}
        value = here.get(value, value).replace("0.0.0.0", "127.0.0.1")
        return value.replace("/etc/rnnlm/", f"{DEPLOY}/")

    def environment(self, service: str, instance: str) -> dict[str, str]:
        """Return the environment variables of the image and the service, with the paths of the service's mounts."""
        paths = {"RNNLM_HOME": self.home.root, "PREFECT_HOME": self.folder / f"{instance}-prefect"}
        if "home:/var/lib/rnnlm" not in self.services[service].get("volumes", []):
            paths["RNNLM_HOME"] = self.folder / f"{instance}-home"
        values = image_variables() | {
            name: self.located(value) for name, value in self.services[service].get("environment", {}).items()
        }
        return values | {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            # Each worker needs a separate port, because both run on this machine.
            "PREFECT_WORKER_WEBSERVER_PORT": str(free_port()),
            **{name: str(path) for name, path in paths.items()},
        }

    def command(self, service: str) -> list[str]:
        program, *arguments = self.services[service]["command"]
        return [*PROGRAMS[program], *map(self.located, arguments)]

    def start(self, service: str, instance: str = "") -> None:
        """Start a service's process. `instance` names one of several processes of the same service."""
        instance = instance or service
        if service == "postgres":
            self.spawn(instance, self.database.command(), {"PATH": "/usr/bin:/bin"}, **unprivileged())
        # moto's S3 keeps objects in memory. It records all requests, so that they can be repeated after a restart.
        elif service == "s3":
            record = {"MOTO_ENABLE_RECORDING": "yes", "MOTO_RECORDER_FILEPATH": str(self.folder / "s3.jsonl")}
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.ports["s3"])]
            self.spawn(instance, command, self.environment("s3", "s3") | record)
        else:
            self.spawn(instance, self.command(service), self.environment(service, instance))

    def spawn(self, instance: str, command: list[str], environment: dict[str, str], **user: Any) -> None:
        log = (self.folder / f"{instance}.log").open("ab")
        self.logs.append(log)
        process = psutil.Popen(
            command, cwd="/", env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **user
        )
        self.processes[instance] = process

    def kill(self, instance: str) -> None:
        """Kill all processes of the container, beginning with its first process."""
        first = self.processes.pop(instance)
        for process in [first, *first.children(recursive=True)]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        first.wait()

    def wait_until_ready(self, service: str) -> None:
        checks: dict[str, Callable[[], bool]] = {
            "postgres": self.database.is_ready,
            "s3": lambda: answers(f"{self.s3_url}/moto-api/data.json"),
            "prefect": lambda: answers(f"{self.prefect_api}/health"),
            "mlflow": lambda: answers(f"{self.mlflow_url}/health"),
            "serve": lambda: answers(f"http://127.0.0.1:{self.ports['serve']}/ready"),
        }
        self.wait_for(checks[service], f"answer of {service}")
        if service == "s3" and (self.folder / "s3.jsonl").exists():
            httpx.post(f"{self.s3_url}/moto-api/recorder/replay-recording", timeout=60).raise_for_status()

    def run(self, service: str) -> None:
        """Run a service that ends by itself."""
        done = subprocess.run(
            self.command(service), cwd="/", env=self.environment(service, service), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start_all(self) -> None:
        """Start all services in the order of depends_on."""
        self.start("postgres")
        self.start("s3")
        self.wait_until_ready("postgres")
        self.database.execute(DEPLOY / "postgres.sql")
        self.wait_until_ready("s3")
        self.run("bucket")
        self.run("bucket")  # The `bucket` service is run, because every `compose up` runs this service.
        for service in ("prefect", "mlflow"):
            self.start(service)
        for service in ("prefect", "mlflow"):
            self.wait_until_ready(service)
        self.run("deploy")
        for instance in ("worker-1", "worker-2"):
            self.start("worker", instance)

    def stop_all(self) -> None:
        for instance in reversed(list(self.processes)):
            self.kill(instance)
        for log in self.logs:
            log.close()
        self.database.remove()

    def rnnlm(
        self,
        *arguments: str,
        service: str = "worker",
        home: Path | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Run a command in a container of the service, with additional variables, and return its standard output."""
        environment = self.environment(service, "command") | variables
        if home is not None:
            environment["RNNLM_HOME"] = str(home)
        done = subprocess.run(
            [*PROGRAMS["rnnlm"], *arguments], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def prefect(self, method: str, path: str, body: Any = None) -> Any:
        user, password = CHOSEN["PREFECT_SERVER_API_AUTH_STRING"].split(":")
        answer = httpx.request(
            method, f"{self.prefect_api}/{path}", json=body, auth=(user, password), timeout=60, trust_env=False
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def runs_of(self, deployment: str) -> list[dict[str, Any]]:
        """Return the started flow runs of a deployment FLOW/NAME in order of their start."""
        found = self.prefect("GET", f"deployments/name/{deployment}")
        query = {
            "deployments": {"id": {"any_": [found["id"]]}},
            "flow_runs": {"state": {"type": {"not_any_": ["SCHEDULED"]}}},
            "sort": "START_TIME_ASC",
        }
        runs: list[dict[str, Any]] = self.prefect("POST", "flow_runs/filter", query)
        return runs

    def state_of(self, deployment: str) -> str:
        runs = self.runs_of(deployment)
        return str(runs[-1]["state"]["type"]) if runs else ""

    def mlflow(self, path: str, body: dict[str, Any]) -> Any:
        answer = httpx.post(
            f"{self.mlflow_url}/api/2.0/mlflow/{path}",
            json=body,
            auth=("admin", CHOSEN["MLFLOW_AUTH_ADMIN_PASSWORD"]),
            timeout=60,
            trust_env=False,
        )
        answer.raise_for_status()
        return answer.json()

    def mlflow_runs(self) -> list[dict[str, Any]]:
        experiments = self.mlflow("experiments/search", {"max_results": 100})["experiments"]
        body = {"experiment_ids": [one["experiment_id"] for one in experiments], "max_results": 1000}
        runs: list[dict[str, Any]] = self.mlflow("runs/search", body).get("runs", [])
        return runs

    def stored_objects(self) -> dict[str, int]:
        """Return the sizes in bytes of all objects in the bucket, by their keys."""
        # The package belongs to an extra, and this module must be importable without it.
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.s3_url,
            region_name="us-east-1",
            aws_access_key_id=CHOSEN["MINIO_ROOT_USER"],
            aws_secret_access_key=CHOSEN["MINIO_ROOT_PASSWORD"],
        )
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="mlflow")
        return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", [])}

    def history_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.home.runs.glob("*/history.jsonl"))

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        # A killed server does not respond. This is not a failure of the test.
        came = poll_until(condition, seconds, every_seconds=0.25, ignored=httpx.HTTPError)
        assert came, f"no {what}\n{self.last_lines()}"

    def last_lines(self) -> str:
        """Return the last lines of every log, for the message of a failed test."""
        ends = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
            ends.append("\n".join([f"--- {path.name}", *lines]))
        return "\n".join(ends)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
