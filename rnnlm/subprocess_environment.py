"""What a child process needs to know to import what this one imports."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def python_path() -> str:
    """PYTHONPATH for a child: this checkout first, installed or not, then what was there."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
