"""The file by which `rnnlm up` tells other commands its ports, valid while it holds a lock."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rnnlm.home import Home, read_json, write_json

LOCK = "up"  # held by the process of `rnnlm up` while it lives


@dataclass(frozen=True)
class RunningHome:
    """A home whose servers are up, or are being started."""

    pid: int  # of `rnnlm up`
    started: str  # ISO 8601, UTC
    prefect_port: int
    mlflow_port: int
    ready: bool = False  # every server has answered, and the deployments exist

    @property
    def prefect_url(self) -> str:
        return f"http://127.0.0.1:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        return f"{self.prefect_url}/api"

    @property
    def mlflow_url(self) -> str:
        return f"http://127.0.0.1:{self.mlflow_port}"


def record_file(home: Home) -> Path:
    return home.root / "up.json"


def write_running(home: Home, running: RunningHome) -> None:
    write_json(record_file(home), asdict(running))


def read_running(home: Home) -> RunningHome | None:
    """None if no `rnnlm up` runs on this home, also if it was killed."""
    stored = read_json(record_file(home))
    if stored is None:
        return None
    with home.lock_if_free(LOCK) as free:
        return None if free else RunningHome(**stored)
