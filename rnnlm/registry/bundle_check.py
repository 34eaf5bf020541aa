"""The check of a bundle before registration, in which a separate process without rnnlm loads the bundle."""

import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rnnlm.errors import ModelError
from rnnlm.storage.home import digest_of, file_digest

TIMEOUT_SECONDS = 600
# The digests of the bundles that this process has checked. A bundle with one of these digests is not checked again.
CHECKED: set[str] = set()
# The collector is off, because the process ends soon, and without it the imports are faster. os._exit leaves out the
# teardown of the imported libraries, which takes about a second.
SCRIPT = """
import gc, importlib.abc, math, os, sys

gc.disable()

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rnnlm", "flows", "tasks"):
            raise ModuleNotFoundError(f"No module named '{name}'")

sys.meta_path.insert(0, Refuse())
import mlflow.pyfunc, torch, transformers

saved = sys.stdin.buffer.read()
if not saved:
    sys.exit()
[score] = mlflow.pyfunc.load_model(os.fsdecode(saved)).predict([{"text": "a b"}])
if not math.isfinite(score["log_probability_nats"]):
    raise ValueError(f"it scores a text with {score['log_probability_nats']} nats")
os._exit(0)
"""


class CheckProcess:
    """A process that imports the libraries of a bundle, and then reads the path of the bundle from its standard input.

    The imports take 3 to 6 s, so the process should be started before it is needed. It ends when the process that
    started it ends, because its standard input is closed then.
    """

    waiting: "CheckProcess | None" = None

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "MLFLOW"))}
        environment |= {
            "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "CUDA_VISIBLE_DEVICES": "",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-IB", "-c", SCRIPT],
            cwd=tempfile.gettempdir(),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    @classmethod
    def start_early(cls) -> None:
        """Start a process for the next check, unless one is waiting."""
        if cls.waiting is None:
            cls.waiting = cls()
            atexit.register(cls.waiting.stop)

    @classmethod
    def take(cls) -> "CheckProcess":
        """Return the waiting process, or a new one if none is waiting or the waiting one has ended."""
        process, cls.waiting = cls.waiting, None
        return process if process is not None and process.process.poll() is None else cls()

    def run(self, saved: Path) -> tuple[int, str]:
        """Let the process check the bundle in `saved`. Return its exit code and its standard error."""
        try:
            _, written = self.process.communicate(os.fsencode(saved.absolute()), TIMEOUT_SECONDS)
        finally:
            self.stop()
        return self.process.returncode, written.decode("utf-8", "replace")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def check_bundle(saved: Path) -> None:
    """Load the saved MLflow model and score a text, in a process that cannot import rnnlm.

    Raise ModelError if loading or scoring fails.
    """
    content = digest_of({str(path.relative_to(saved)): file_digest(path) for path in loaded_files(saved)})
    if content in CHECKED:
        return
    try:
        code, written = CheckProcess.take().run(saved)
    except subprocess.TimeoutExpired as error:
        raise ModelError(
            f"the model was not registered: the check of its bundle took longer than {TIMEOUT_SECONDS} s;\n"
            "run the same command again; the trained model is kept."
        ) from error
    if code:
        why = (written.strip().splitlines() or [f"exit code {code}"])[-1]
        advice = "Run"
        if "ImportError" in why or "ModuleNotFoundError" in why:
            advice = (
                "The module of a layer may import torch, numpy and `from rnnlm.models.… import …`.\n"
                "Correct its imports and run"
            )
        raise ModelError(
            f"the model was not registered: without rnnlm installed, its bundle cannot be used: {why[:300]}.\n"
            f"{advice} the same command again; the trained model is kept."
        )
    CHECKED.add(content)


def loaded_files(saved: Path) -> list[Path]:
    """Return the files of a bundle on which the check depends.

    The model card is left out, and so is MLflow's own description, which contains the ids of the version.
    """
    return sorted(path for path in (saved / "artifacts").rglob("*") if path.is_file() and path.name != "README.md")
