"""Training's state comes back whole, the global random generators too."""

import subprocess
import sys
from pathlib import Path


def test_what_concerns_the_global_generators_in_a_process_without_other_threads() -> None:
    """In this one, threads of Prefect draw from Python's generator whenever they like."""
    tests = Path(__file__).with_name("global_generators.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, cwd=tests.parents[4], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
