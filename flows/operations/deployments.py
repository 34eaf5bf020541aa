"""Create the work pool, queues and deployments of prefect.yaml on the server at PREFECT_API_URL."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from flows.operations.console import show_library_lines
from flows.operations.dead_runs import WORK_POOL, settle_dead_runs
from flows.operations.prefect_server import wait_for_server
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.tracking.mlflow_store import prepare_store

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def deploy_all(home: Home) -> list[str]:
    """Create the process work pool and every deployment. Returns their names, `flow/deployment`.

    Idempotent: running it again updates what exists. Also settles runs that died together with the server.
    ConfigError outside a checkout: deployments name files of one, and workers run in it.
    """
    if not (CHECKOUT / "prefect.yaml").exists():
        raise ConfigError(
            "rnnlm deploy needs a checkout of the repository: workers run flows/ from it;\n"
            "this rnnlm is installed from a wheel; run rnnlm deploy from a checkout (make setup)"
        )
    show_library_lines()
    wait_for_server(os.environ["PREFECT_API_URL"])
    prefect("work-pool", "create", WORK_POOL, "--type", "process", "--overwrite")
    prefect("deploy", "--all", "--no-prompt")
    prepare_store(home)  # before `mlflow ui` and a first run could migrate it at the same time
    settle_dead_runs(home)
    plan = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    flows = [deployment["entrypoint"].partition(":")[2].removesuffix("_flow") for deployment in plan["deployments"]]
    return [f"{flow}/{deployment['name']}" for flow, deployment in zip(flows, plan["deployments"], strict=True)]


def prefect(*arguments: str) -> None:
    """Run the prefect command in the checkout. ConfigError with its last line of output if it fails."""
    # From the checkout: Prefect's default pull step sends workers to the folder it was deployed from.
    command = [sys.executable, "-m", "prefect", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise ConfigError(f"prefect {' '.join(arguments)}: {last}\nIs the server at PREFECT_API_URL running?")
