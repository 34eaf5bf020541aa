"""`rnnlm up --install`: write a systemd user unit that starts all servers at login or, with lingering, at boot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from flows.operations.home_servers import read_running
from flows.service.supervisor import up_command_line
from rnnlm.errors import ConfigError
from rnnlm.storage.home import Home

UNIT_NAME = "rnnlm.service"
UNIT_STOP_SECONDS = 180  # The timeout in seconds for runs to write their checkpoints and for four servers to end.
UNIT = """\
# Written by `rnnlm up --install`.
[Unit]
Description=rnnlm: Prefect, MLflow and a worker for {home}

[Service]
Type=exec
ExecStart={command}
Environment={environment}
WorkingDirectory={folder}
# SIGTERM goes to `rnnlm up` alone, which stops training, worker and servers in order.
KillMode=mixed
TimeoutStopSec={stop_seconds}
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


def unit_file() -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configuration) / "systemd" / "user" / UNIT_NAME


def unit_text(home: Home, prefect_port: int, mlflow_port: int) -> str:
    return UNIT.format(
        home=escaped(str(home.root)),
        command=" ".join(map(quoted, up_command_line(prefect_port, mlflow_port))),
        environment=quoted(f"RNNLM_HOME={home.root}"),
        folder=escaped(str(home.root)),
        stop_seconds=UNIT_STOP_SECONDS,
    )


def escaped(text: str) -> str:
    """Return the text with `%` escaped, because systemd interprets it as the beginning of a specifier."""
    return text.replace("%", "%%")


def quoted(text: str) -> str:
    """Return a word quoted for a unit file, so that it may contain spaces, quotes and dollar signs."""
    text = escaped(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{text}"' if any(character in text for character in " \\\"'$") else text


def install_unit(home: Home, prefect_port: int, mlflow_port: int) -> list[str]:
    """Write the unit and enable it. Return lines that tell the user what was done and what remains to be done.

    Raise ConfigError if there is a unit of another rnnlm home, or if the system is not Linux.
    """
    if sys.platform != "linux":
        command = " ".join(map(quoted, up_command_line(prefect_port, mlflow_port)))
        raise ConfigError(
            f"--install writes a systemd unit, which only Linux can run; on this system ({sys.platform}), let the\n"
            f"service manager (launchd on macOS) run this command with RNNLM_HOME={home.root}: {command}"
        )
    path, text = unit_file(), unit_text(home, prefect_port, mlflow_port)
    if path.exists() and f"RNNLM_HOME={escaped(str(home.root))}" not in path.read_text(encoding="utf-8"):
        raise ConfigError(f"{path}: this unit belongs to another home; remove it first, or install from that home")
    home.make(home.root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    start = [] if read_running(home) else ["--now"]
    commands = [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", *start, UNIT_NAME]]
    lines = [f"wrote      {path}"]
    if shutil.which("systemctl") and all(succeeds(command) for command in commands):
        lines.append(f"enabled    {'it runs now and' if start else 'what runs now stays; it starts'} after every login")
    else:
        lines += [f"{'run' if n == 0 else '':<11}{' '.join(command)}" for n, command in enumerate(commands)]
    return [*lines, "to start   without a login: loginctl enable-linger"]


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0
