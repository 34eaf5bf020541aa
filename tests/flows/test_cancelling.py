"""A cancelled Prefect run writes a checkpoint first: Prefect ends its process by SIGTERM and raises in the task."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.training_run import name_run
from tests.configs import changed

ROOT = Path(__file__).resolve().parents[2]
FLOW = """
import sys
from rnnlm.home import find_home
from flows.operations.prefect_environment import set_environment
set_environment(find_home())
from flows.operations.flow_runner import migrate_database
migrate_database(find_home())
from prefect import flow
from rnnlm.config import PipelineConfig
from rnnlm.records import DatasetRecord
from tasks.train_model import train_model

@flow
def training(config: PipelineConfig, dataset: DatasetRecord) -> None:
    try:
        train_model(config, dataset)
    except BaseException as error:
        print("the task raised", type(error).__name__, flush=True)
        raise

training(*(kind.model_validate_json(line) for kind, line in zip((PipelineConfig, DatasetRecord), sys.stdin)))
"""


@pytest.mark.slow
def test_sigterm_to_a_flow_run_writes_a_checkpoint_and_is_prefects_again(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, tmp_path: Path
) -> None:
    config = changed(toy_config, {"training.epochs": 300, "training.checkpoints.every_seconds": 1000.0})
    folder = tracked_home.runs / name_run(config, toy_dataset)
    (tmp_path / "requests").write_text(config.model_dump_json() + "\n" + toy_dataset.model_dump_json() + "\n")
    history = folder / "history.jsonl"
    with (tmp_path / "requests").open() as requests, (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", FLOW],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=requests,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        while process.poll() is None and not (history.exists() and history.read_bytes().count(b"\n") > 5):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) != 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its temporary Prefect server outlives it
    assert "the task raised TerminationSignal" in (tmp_path / "said").read_text()
    [checkpoint] = sorted((folder / "checkpoints").iterdir())[-1:]
    last = [json.loads(line)["step"] for line in history.read_text().splitlines()][-1]
    assert last <= int(checkpoint.name.removeprefix("step-")) < last + config.training.epochs * 10 // 200 + 1
    noted = json.loads((folder / "tracking.json").read_text())
    with reaching_mlflow(tracked_home) as client:
        assert client.get_run(noted["mlflow_run_id"]).info.status == "KILLED"
