"""Environment variables that disable telemetry and warnings of libraries, and limit the busy waiting of threads.

Values that the user has set are kept.
"""

import os

QUIET_LIBRARIES = {
    "DO_NOT_TRACK": "true",  # MLflow only accepts the value "true".
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # The limit for busy waiting by torch's threads. On a busy machine, a higher value makes training 3 times slower.
    "GOMP_SPINCOUNT": "2000",
}


def quieten_libraries() -> None:
    """Set the environment variables that are not set yet. Call this function before torch is imported."""
    for name, value in QUIET_LIBRARIES.items():
        os.environ.setdefault(name, value)
