"""Read the ports and the password of an rnnlm home's own servers, which are stored in files of the home.

The ports are valid as long as `rnnlm up` holds a lock. The servers need a password, because every user of the machine
and every page in a browser can reach a loopback address. Anyone who can use an open Prefect API can make its worker run
a shell command.
"""

import os
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from rnnlm.errors import HomeError
from rnnlm.storage.home import Home, atomic_file, read_json, write_json

LOCK = "up"  # The name of the lock that the process of `rnnlm up` holds as long as it runs.
RECORD_FILE = "up.json"
USER = "rnnlm"
PASSWORD_FILE = "password"  # The name of the file with one line, USER:PASSWORD, in the format that Prefect expects.
SHORTEST_PASSWORD, LONGEST_PASSWORD_BYTES = 8, 1_000
PASSWORD = re.compile(rb"[\x21-\x39\x3b-\x7e]+:[\x21-\x7e]{%d,}\s*" % SHORTEST_PASSWORD)


@dataclass(frozen=True)
class RunningHome:
    """An rnnlm home whose servers are running or starting."""

    pid: int  # The process id of the supervisor, `rnnlm up`.
    started: str  # The time at which `rnnlm up` was started, in ISO 8601, UTC.
    prefect_port: int
    mlflow_port: int
    ready: bool = False  # True if every server has answered and the deployments exist.

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
    """Return the running servers of the rnnlm home, or None if `rnnlm up` is not running or was killed."""
    stored = read_json(home.root / RECORD_FILE)
    try:
        running = RunningHome(**stored)
        ports = (int(running.prefect_port), int(running.mlflow_port))
    except (TypeError, ValueError):  # The file with the ports is missing or damaged.
        return None
    if (running.prefect_port, running.mlflow_port) != ports:
        return None
    with home.lock_if_free(LOCK) as free:
        return None if free else running


def home_password(home: Home) -> str:
    """Return `user:password` of the rnnlm home's servers. The first call generates it.

    Only the owner can read the file. Raise HomeError if another user can read or change the file, because the password
    allows running commands as this user.
    """
    path = home.root / PASSWORD_FILE
    home.make(home.root)
    with home.lock(PASSWORD_FILE):
        if not path.exists() and not path.is_symlink():
            with atomic_file(path, private=True) as partial:
                partial.write_text(f"{new_password()}\n", encoding="utf-8")
        if (problem := problem_of_password(path)) is not None:
            raise HomeError(
                f"{path}: {problem}, so it is not used as the password of this home's servers.\n"
                f"Delete the file; the next rnnlm up creates another one."
            )
        return path.read_text(encoding="utf-8").strip()


def problem_of_password(path: Path) -> str | None:
    """Return the reason why the password is unsafe, for example that others can read it, or None if it is safe."""
    if path.is_symlink() or not path.is_file():
        return "it is not a file"
    found = path.stat()
    if found.st_uid != os.getuid():
        return "another user owns it"
    if found.st_mode & 0o077:
        return f"other users may read or write it (mode {found.st_mode & 0o777:o})"
    with path.open("rb") as stream:
        content = stream.read(LONGEST_PASSWORD_BYTES + 1)
        if len(content) > LONGEST_PASSWORD_BYTES or not PASSWORD.fullmatch(content):
            return f"it is not one line, {USER}:PASSWORD, of at least {SHORTEST_PASSWORD} letters and digits"
    return None


def new_password() -> str:
    return f"{USER}:{secrets.token_urlsafe(24)}"


def credentials(password: str) -> tuple[str, str]:
    """Split `user:password` into user and password."""
    user, _, secret = password.partition(":")
    return user, secret


def password_variables(password: str, port: int) -> dict[str, str]:
    """Return Prefect's environment variables for the password.

    With these variables, clients send the password and the server requires it. Only the server's own pages may read its
    responses.
    """
    origins = ",".join(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost"))
    return {
        "PREFECT_API_AUTH_STRING": password,
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origins,
    }
