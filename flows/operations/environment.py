"""What must be in the environment before Prefect is imported: where it keeps its things, and its silence."""

import os

from rnnlm.home import Home

QUIET_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "true",  # MLflow takes only "true"; Prefect takes it too
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",  # bars of other libraries; ours say themselves when they show
    "GOMP_SPINCOUNT": "2000",  # of torch's threads while they wait: more makes a busy machine 3 times slower
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rnnlm",  # the library's log lines join the flow run's log
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # a busy machine needs more than 20 s
}


def set_environment(home: Home) -> None:
    """Embedded defaults for this process and its children; whatever the user has set wins."""
    home.make(home.prefect)
    os.environ.setdefault("RNNLM_HOME", str(home.root))
    if "PREFECT_API_URL" not in os.environ:
        os.environ.setdefault("PREFECT_HOME", str(home.prefect))
    for name, value in QUIET_DEFAULTS.items():
        os.environ.setdefault(name, value)
