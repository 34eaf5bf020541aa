"""Work pool, queues and deployments of prefect.yaml, made on the server at PREFECT_API_URL."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml

from flows.operations.console import show_library_lines
from flows.operations.dead_runs import settle_dead_runs
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.tracking.mlflow_store import prepare_store

logger = logging.getLogger(__name__)
CHECKOUT = Path(__file__).resolve().parent.parent.parent
SERVER_SECONDS = 120.0  # that a server may take to start on a busy machine


def deploy_all(home: Home) -> list[str]:
    """Create the process work pool and every deployment. Returns the names `flow/deployment`.

    Idempotent: run again, it updates what is there. Runs that died with the server before are settled.
    ConfigError outside a checkout: deployments name files of one, and workers run in it.
    """
    if not (CHECKOUT / "prefect.yaml").exists():
        raise ConfigError(
            "rnnlm deploy needs a checkout of the repository: workers run flows/ from it;\n"
            "this rnnlm is installed from a wheel; run rnnlm deploy from a checkout (make setup)"
        )
    show_library_lines()
    wait_for_server(os.environ["PREFECT_API_URL"])
    prefect("work-pool", "create", "rnnlm", "--type", "process", "--overwrite")
    prefect("deploy", "--all", "--no-prompt")
    prepare_store(home)  # before `mlflow ui` and a first run could make it together
    settle_dead_runs(home)
    plan = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    return [
        f"{Path(d['entrypoint'].split(':')[0]).stem.removesuffix('_flow')}/{d['name']}" for d in plan["deployments"]
    ]


def wait_for_server(address: str) -> None:
    """Return once the server answers: it may just have been started. ConfigError where it does not."""
    import httpx

    deadline = time.monotonic() + SERVER_SECONDS
    while True:
        try:
            httpx.get(f"{address.rstrip('/')}/health", timeout=5).raise_for_status()
            return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"PREFECT_API_URL={address}: no Prefect server answered for {SERVER_SECONDS:.0f} s ({error});\n"
                    'start one: eval "$(rnnlm env)", prefect server start'
                ) from error
        time.sleep(0.5)


def prefect(*arguments: str) -> None:
    """The prefect command in the checkout. ConfigError with its last line where it fails."""
    # From the checkout: Prefect's default pull step sends workers to the folder it was deployed from.
    command = [sys.executable, "-m", "prefect", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise ConfigError(f"prefect {' '.join(arguments)}: {last}\nIs the server at PREFECT_API_URL running?")
