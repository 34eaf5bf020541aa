"""A PostgreSQL server in a separate folder, configured in the same way as in the image of deploy/compose.yaml."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

INSTALLED = Path("/usr/lib/postgresql")  # Debian installs the server's programs in this folder. It is not in PATH.


def server_programs() -> Path | None:
    """Return the folder of the newest initdb and postgres, or None if they are not installed."""
    places = sorted(INSTALLED.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    if named := shutil.which("initdb"):
        places.append(Path(named).resolve().parent)
    return next((folder for folder in places if (folder / "postgres").exists()), None)


def unprivileged() -> dict[str, Any]:
    """Return Popen's arguments for running as an unprivileged user, because PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    account = pwd.getpwnam("postgres")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class Database:
    """A cluster with the `rnnlm` account and the databases that deploy/postgres.sql creates."""

    def __init__(self, programs: Path, port: int, password: str) -> None:
        self.programs, self.port, self.password = programs, port, password
        # The folder is not inside pytest's folder, which only root may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="rnnlm-postgres-"))
        secret = self.folder / "password"
        secret.write_text(password, encoding="utf-8")
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
            shutil.chown(secret, "postgres")
        create = [str(programs / "initdb"), "--pgdata", str(self.folder / "data"), "--username=rnnlm"]
        create += ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8"]
        self.run(create)

    def command(self) -> list[str]:
        """Return the command that starts a server on a loopback address only."""
        server = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-h", "127.0.0.1"]
        return [*server, "-p", str(self.port), "-k", str(self.folder)]

    def is_ready(self) -> bool:
        probe = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "rnnlm"]
        return subprocess.run([*probe, "-d", "postgres"], cwd="/").returncode == 0

    def execute(self, script: Path) -> None:
        """Execute an SQL file. The image does the same when the cluster is empty."""
        client = [str(self.programs / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port)]
        self.run([*client, "-U", "rnnlm", "-d", "postgres"], script.read_text(encoding="utf-8"))

    def run(self, command: list[str], text: str = "") -> None:
        environment = os.environ | {"PGPASSWORD": self.password}
        done = subprocess.run(
            command, input=text, cwd="/", env=environment, capture_output=True, text=True, **unprivileged()
        )
        assert done.returncode == 0, done.stderr

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
