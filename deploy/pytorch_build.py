"""Install a build of PyTorch for this machine, with CUDA if there is an NVIDIA driver, else for the CPU alone.

.venv/bin/python deploy/pytorch_build.py [cpu|cuda]     run by `make` and by deploy/Dockerfile, with the value of TORCH

On Linux, the build in the package index contains CUDA. It is about ten times as large as the build for the CPU alone,
which is only in PyTorch's own index. TORCH_INDEX may be the address of a mirror of PyTorch's index.
"""

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
PYTORCH_INDEX = "https://download.pytorch.org/whl"
OWN = "the package index's own"  # The build in the package index, which is for CUDA 13.
SIZES = "It contains CUDA: about 3 GB to download and 6 GB in .venv; without it these are about 0.5 and 1.7 GB."


def driver_cuda() -> tuple[int, int] | None:
    """Return the newest version of CUDA that the NVIDIA driver supports, or None if there is no working driver."""
    try:
        said = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"CUDA[\w ]* Version *: *(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (13, 0)


def choose_build(asked: str) -> str:
    """Return the name of a build in PyTorch's index, or OWN for the build in the package index.

    Exit if the driver is too old for a requested CUDA build.
    """
    if asked not in ("", "cpu", "cuda"):
        sys.exit(f"TORCH={asked}: expected cpu or cuda, or nothing, to let the NVIDIA driver decide")
    driver = driver_cuda()
    if asked == "cpu" or (asked == "" and driver is None):
        return "cpu"
    if driver is None or driver >= (13, 0):
        return OWN
    if driver >= (12, 0):
        return "cu126"  # CUDA 12.6 runs on every driver for CUDA 12.
    problem = f"the NVIDIA driver runs CUDA {driver[0]}.{driver[1]}, and PyTorch needs a driver for CUDA 12 or later"
    if asked == "cuda":
        sys.exit(f"TORCH=cuda: {problem}; update the driver")
    print(f"{problem}: the build for the CPU alone is installed", file=sys.stderr)
    return "cpu"


def installed_build() -> str | None:
    """Return the build of the installed PyTorch, which is part of its version (2.13.0+cpu), or None without PyTorch."""
    try:
        return version("torch").partition("+")[2] or OWN
    except PackageNotFoundError:
        return None


def pip_succeeds(*options: str, quiet: bool = False) -> bool:
    """Install PyTorch with pip, and return True on success.

    The packages that PyTorch depends on are not installed here, but together with rnnlm.
    """
    plain = ("--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--constraint", str(CONSTRAINTS))
    command = [sys.executable, "-m", "pip", "install", *plain, *options, "torch"]
    return subprocess.run(command, stderr=subprocess.DEVNULL if quiet else None).returncode == 0


def main(asked: str = "") -> None:
    if platform.system() != "Linux":
        return  # On other systems, the package index has a single build, without CUDA.
    present = installed_build()
    if present is not None and asked in ("", "cpu" if present == "cpu" else "cuda"):
        # If PyTorch is installed, the environment keeps its build. Pip installs a later version of this build, or
        # nothing.
        build, replacing = present, ()
    else:
        build, replacing = choose_build(asked), ("--force-reinstall",) if present else ()
    own = build == OWN
    if not own:
        index = f"{os.environ.get('TORCH_INDEX') or PYTORCH_INDEX}/{build}"
        # First try with few retries and a short timeout, so that an unreachable index costs only seconds. The actual
        # installation uses pip's defaults.
        impatient = ("--dry-run", "--retries", "1", "--timeout", "5")
        own = not pip_succeeds("--index-url", index, *impatient, *replacing, quiet=True)
        if own:
            print(f"{index} cannot be reached, or has no such PyTorch: {OWN} is installed. {SIZES}", file=sys.stderr)
    if not pip_succeeds(*(() if own else ("--index-url", index)), *replacing):
        sys.exit("PyTorch could not be installed; see above, and run it again")


if __name__ == "__main__":
    main(*sys.argv[1:2])
