"""The environment of child processes that import this package."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def python_path() -> str:
    """Return PYTHONPATH for a child process: this checkout, followed by the current value."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
