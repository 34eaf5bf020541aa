"""A cancelled Prefect run writes a checkpoint first: Prefect ends its process by SIGTERM and raises in the task."""

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
from rnnlm.tracking.store import reaching_mlflow
from rnnlm.training.running import name_run

ROOT = Path(__file__).resolve().parents[2]
FLOW = """
import sys
from rnnlm.home import find_home
from flows.operations.environment import set_environment
set_environment(find_home())
from flows.operations.running import migrate_database
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
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    training = toy_config.training.model_copy(update={"epochs": 300, "checkpoint_every_seconds": 1000.0})
    config = toy_config.model_copy(update={"training": training})
    folder = tracked_home.runs / name_run(config, toy_dataset)
    process = subprocess.Popen(
        [sys.executable, "-c", FLOW],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(config.model_dump_json() + "\n" + toy_dataset.model_dump_json() + "\n")
    process.stdin.flush()
    history = folder / "history.jsonl"
    while process.poll() is None and not (history.exists() and history.read_bytes().count(b"\n") > 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert "the task raised TerminationSignal" in said, said
    assert process.returncode != 0
    [checkpoint] = sorted((folder / "checkpoints").iterdir())[-1:]
    last = [json.loads(line)["step"] for line in history.read_text().splitlines()][-1]
    assert last <= int(checkpoint.name.removeprefix("step-")) < last + config.training.epochs * 10 // 200 + 1
    noted = json.loads((folder / "tracking.json").read_text())
    with reaching_mlflow(tracked_home) as client:
        assert client.get_run(noted["mlflow_run_id"]).info.status == "KILLED"
