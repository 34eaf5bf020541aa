"""What must be in the environment before Prefect is imported: where it keeps its files, no telemetry, its logging."""

import importlib.util
import os
from pathlib import Path

from rnnlm.home import Home
from rnnlm.tracking.mlflow_store import ENVIRONMENT_DEFAULTS, embedded_uri

LOCAL_API = "http://127.0.0.1:4200/api"  # where `prefect server start` listens
DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "true",  # MLflow takes only "true"; Prefect takes it too
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",  # progress bars of other libraries; ours decide for themselves when they show
    "GOMP_SPINCOUNT": "2000",  # of torch's threads while they wait: more makes a busy machine 3 times slower
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rnnlm",  # the library's log lines join the flow run's log
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # a busy machine needs more than 20 s
    # In memory, Prefect's default, a restart of the server loses the leases: what a dead run holds stays taken.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a service of `mlflow ui` that we do not use: 700 MB
    **ENVIRONMENT_DEFAULTS,
}


def set_environment(home: Home) -> None:
    """Set the defaults for this process and its children; what the user has set wins."""
    home.make(home.prefect)
    # 5, Prefect's default, lets each call to a server that is gone take a minute. A command has another way out.
    for name, value in (defaults_in(home) | {"PREFECT_CLIENT_MAX_RETRIES": "3"}).items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" not in os.environ:
        os.environ.setdefault("PREFECT_HOME", str(home.prefect))


def server_environment(home: Home) -> dict[str, str]:
    """The variables for `prefect server`, `prefect worker` and `mlflow ui` on this home; what the user has set wins."""
    wanted = defaults_in(home) | {
        "PREFECT_HOME": str(home.prefect),
        "PREFECT_API_URL": LOCAL_API,
        "MLFLOW_BACKEND_STORE_URI": embedded_uri(home),
    }
    return {name: os.environ.get(name, value) for name, value in sorted(wanted.items())}


def defaults_in(home: Home) -> dict[str, str]:
    return DEFAULTS | {
        "RNNLM_HOME": str(home.root),
        # Prefect's own file. By default it prefers $PREFECT_HOME/logging.yml, and what that names is run.
        "PREFECT_LOGGING_SETTINGS_PATH": str(prefect_folder() / "logging" / "logging.yml"),
    }


def prefect_folder() -> Path:
    """Where Prefect is installed. It is not imported: it reads its settings when it is."""
    found = importlib.util.find_spec("prefect")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent
