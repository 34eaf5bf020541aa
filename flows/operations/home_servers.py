"""Ports and password of a home's own servers, as commands read them from files in the home.

The ports are valid while `rnnlm up` holds a lock. The servers need a password because loopback keeps no one out: every
user of the machine and every page in a browser can reach it, and anyone who reaches an open Prefect API can make its
worker run a shell command.
"""

import secrets
from dataclasses import asdict, dataclass

from rnnlm.storage.home import Home, atomic_file, read_json, write_json

LOCK = "up"  # held by the process of `rnnlm up` while it lives
RECORD_FILE = "up.json"
USER = "rnnlm"
PASSWORD_FILE = "password"  # one line, USER:PASSWORD, as Prefect takes it


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


def write_running(home: Home, running: RunningHome) -> None:
    write_json(home.root / RECORD_FILE, asdict(running))


def read_running(home: Home) -> RunningHome | None:
    """None if no `rnnlm up` runs on this home, also if it was killed."""
    stored = read_json(home.root / RECORD_FILE)
    if stored is None:
        return None
    with home.lock_if_free(LOCK) as free:
        return None if free else RunningHome(**stored)


def home_password(home: Home) -> str:
    """`user:password` of the home's servers, made at the first call. Only its owner can read the file."""
    path = home.root / PASSWORD_FILE
    home.make(home.root)
    with home.lock(PASSWORD_FILE):
        if not path.exists():
            with atomic_file(path, private=True) as partial:
                partial.write_text(f"{new_password()}\n", encoding="utf-8")
        return path.read_text(encoding="utf-8").strip()


def new_password() -> str:
    return f"{USER}:{secrets.token_urlsafe(24)}"


def credentials(password: str) -> tuple[str, str]:
    """User and password of `user:password`."""
    user, _, secret = password.partition(":")
    return user, secret


def password_variables(password: str, port: int) -> dict[str, str]:
    """Prefect's variables: clients send the password; its server asks for it, and only its own pages read answers."""
    origins = ",".join(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost"))
    return {
        "PREFECT_API_AUTH_STRING": password,
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origins,
    }
