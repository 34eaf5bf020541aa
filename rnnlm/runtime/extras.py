"""Optional packages that only some commands need.

pyproject.toml lists these packages as extras. Commands check whether the packages are installed before importing them.
"""

import importlib.util
import sys
from pathlib import Path

from rnnlm.errors import ExtraError

EXTRAS = {  # The packages of each extra that rnnlm imports.
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "documents": ("pypdf",),
    "lm-eval": ("lm_eval",),
    "ray": ("ray", "prefect_ray"),
}


def missing_packages(extra: str) -> list[str]:
    return [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]


def need_extra(extra: str, wanted_by: str) -> None:
    """Raise ExtraError, with the command that installs the extra, if one of its packages is missing."""
    missing = missing_packages(extra)
    if missing:
        in_checkout = (Path(__file__).resolve().parents[2] / "pyproject.toml").exists()
        editable = f'.venv/bin/pip install --constraint constraints.txt --editable ".[{extra}]"'
        raise ExtraError(
            f"{wanted_by}: needs {', '.join(missing)}, which an ordinary installation leaves out; install with\n"
            + (editable if in_checkout else f"{sys.executable} -m pip install {' '.join(missing)}")
        )
