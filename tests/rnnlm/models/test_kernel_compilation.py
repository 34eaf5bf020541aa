"""All Triton kernels can be compiled for a GPU, even on a machine without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.long
def test_every_kernel_compiles_and_fits_a_block() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, str(CHECKOUT / "tests" / "compile_kernels.py")]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("states_kernel") >= 4
    assert found.stdout.count("row_kernel") >= 4
