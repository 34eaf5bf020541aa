"""The check of a bundle before registration. It is loaded in a separate process that cannot import rnnlm."""

import os
import subprocess
import sys
from pathlib import Path

from rnnlm.errors import ModelError
from rnnlm.storage.home import digest_of, file_digest

TIMEOUT_SECONDS = 600
# The digests of what this process has checked. A repaired version has the same content, and is not checked again.
CHECKED: set[str] = set()
SCRIPT = """
import importlib.abc, math, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rnnlm", "flows", "tasks"):
            raise ModuleNotFoundError(f"No module named '{name}'")

sys.meta_path.insert(0, Refuse())
import mlflow.pyfunc

[score] = mlflow.pyfunc.load_model(sys.argv[1]).predict([{"text": "a b"}])
if not math.isfinite(score["log_probability_nats"]):
    raise ValueError(f"it scores a text with {score['log_probability_nats']} nats")
"""


def check_bundle(saved: Path) -> None:
    """Load the saved MLflow model and score a text, in a new process that cannot import rnnlm.

    Raise ModelError if it fails.

    The check takes 3 to 6 s, mostly for importing torch and MLflow.
    """
    content = digest_of({str(path.relative_to(saved)): file_digest(path) for path in loaded_files(saved)})
    if content in CHECKED:
        return
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "MLFLOW"))}
    environment |= {
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "CUDA_VISIBLE_DEVICES": "",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-IB", "-c", SCRIPT, str(saved)],
            cwd=saved.parent,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(
            f"the model was not registered: the check of its bundle took longer than {TIMEOUT_SECONDS} s;\n"
            "run the same command again; the trained model is kept."
        ) from error
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        advice = "Run"
        if "ImportError" in why or "ModuleNotFoundError" in why:
            advice = (
                "The module of a layer may import torch, numpy and `from rnnlm.models.… import …`.\nMend that and run"
            )
        raise ModelError(
            f"the model was not registered: without rnnlm installed, its bundle cannot be used: {why[:300]}.\n"
            f"{advice} the same command again; the trained model is kept."
        )
    CHECKED.add(content)


def loaded_files(saved: Path) -> list[Path]:
    """Return the files on which the check depends.

    The card is not among them, nor is MLflow's description with the version's ids.
    """
    return sorted(path for path in (saved / "artifacts").rglob("*") if path.is_file() and path.name != "README.md")
