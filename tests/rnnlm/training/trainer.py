"""Real training processes, which tests may kill. As a script, this file forks a process for each request.

Forking avoids the seconds that importing takes. A request is a line of JSON on standard input: {"home", "config",
"dataset", "log", "limit_bytes"}, or {"tests", "log"} for a file of tests to run. The response is two lines on standard
output: the child's process id, and after the child has ended, its status as returned by waitpid.
"""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord

ROOT = Path(__file__).resolve().parents[3]


class Trainer:
    """A client that sends requests to a process of this script."""

    def __init__(self, log: Path) -> None:
        self.log = log
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def start(self, home: Home, config: PipelineConfig, dataset: DatasetRecord, limit_bytes: int | None = None) -> int:
        """Start training in a new process, and return its id."""
        request = {
            "home": str(home.root),
            "config": config.model_dump(mode="json"),
            "dataset": dataset.model_dump(mode="json"),
            "log": str(self.log),
            "limit_bytes": limit_bytes,
        }
        return self.send(request)

    def send(self, request: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.log.write_text("")
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def run_tests(self, path: Path) -> str:
        """Run a file of tests in a process without other threads, and return pytest's output."""
        self.send({"tests": str(path), "log": str(self.log)})
        code, said = self.wait(), self.log.read_text()
        assert code == 0, said
        return said

    def wait(self) -> int:
        """Wait until the process ends, and return its exit code.

        A negative code is the number of the signal that killed it.
        """
        assert self.process.stdout is not None
        return os.waitstatus_to_exitcode(int(self.process.stdout.readline()))

    def run(self, home: Home, config: PipelineConfig, dataset: DatasetRecord, limit_bytes: int | None = None) -> str:
        """Train to the end, and return the log."""
        self.start(home, config, dataset, limit_bytes)
        code, log = self.wait(), self.log.read_text()
        assert code == 0, log
        return log

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def serve(answer: Callable[[dict[str, Any]], None]) -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                answer(json.loads(line))
                code = 0
            except KeyboardInterrupt:
                code = 130
            except BaseException:
                logging.exception("the request failed")
            finally:
                logging.shutdown()
                os._exit(code)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


def answer(request: dict[str, Any]) -> None:
    run_tests(request) if "tests" in request else train(request)


def run_tests(request: dict[str, Any]) -> None:
    import pytest

    log = os.open(request["log"], os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # The plugins are not needed, and loading them takes seconds.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    code = pytest.main(["-p", "xdist.plugin", "-p", "no:cacheprovider", request["tests"]])
    sys.stdout.flush()
    os._exit(code)


def train(request: dict[str, Any]) -> None:
    from rnnlm.training.training_run import run_training
    from tests.conftest import untracked

    logging.basicConfig(filename=request["log"], level=logging.INFO, format="%(message)s", force=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["limit_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["limit_bytes"], request["limit_bytes"]))
    dataset = DatasetRecord.model_validate(request["dataset"])
    run_training(Home(Path(request["home"])), PipelineConfig.model_validate(request["config"]), dataset, untracked)


if __name__ == "__main__":
    import rnnlm.training.training_run  # noqa: F401  once, for all children
    import tests.conftest  # noqa: F401

    serve(answer)
