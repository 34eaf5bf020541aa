"""Environment variables for the libraries below: no telemetry, no warnings about threads. The user's own win."""

import os

QUIET_LIBRARIES = {
    "DO_NOT_TRACK": "true",  # MLflow takes only "true"; Prefect takes it too
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GOMP_SPINCOUNT": "2000",  # how long torch's threads spin while waiting: more makes a busy machine 3 times slower
}


def quieten_libraries() -> None:
    """Set what is not set. Before torch is imported."""
    for name, value in QUIET_LIBRARIES.items():
        os.environ.setdefault(name, value)
