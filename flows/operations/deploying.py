"""Work pool, queues and deployments of prefect.yaml, made on the server at PREFECT_API_URL."""

import subprocess
import sys
from pathlib import Path

import yaml

from rnnlm.errors import ConfigError

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def deploy_all() -> list[str]:
    """Create the process work pool and every deployment. Returns the names `flow/deployment`.

    Idempotent: run again, it updates what is there.
    """
    prefect("work-pool", "create", "rnnlm", "--type", "process", "--overwrite")
    prefect("deploy", "--all", "--no-prompt")
    plan = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    return [
        f"{Path(d['entrypoint'].split(':')[0]).stem.removesuffix('_flow')}/{d['name']}" for d in plan["deployments"]
    ]


def prefect(*arguments: str) -> None:
    """The prefect command in the checkout. ConfigError with its last line where it fails."""
    # From the checkout: Prefect's default pull step sends workers to the folder it was deployed from.
    command = [sys.executable, "-m", "prefect", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise ConfigError(f"prefect {' '.join(arguments)}: {last}\nIs the server at PREFECT_API_URL running?")
