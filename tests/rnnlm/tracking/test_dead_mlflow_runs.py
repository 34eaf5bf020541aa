"""The MLflow runs of killed training processes do not remain in the state RUNNING.

The MLflow runs of running processes and of other rnnlm homes are not changed.
"""

import shutil

from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.dead_mlflow_runs import end_dead_mlflow_runs
from rnnlm.tracking.mlflow_runs import tracker_of
from rnnlm.tracking.mlflow_store import reaching_mlflow

RUN_ID = "0123456789abcdef"


def begun(home: Home, config: PipelineConfig, dataset: DatasetRecord, run_id: str = RUN_ID) -> str:
    """Create an MLflow run that remains in the state RUNNING, as after a kill, and return its id."""
    folder = home.runs / run_id
    folder.mkdir(parents=True)
    tracker = tracker_of(home, config, dataset, run_id)
    tracker.flush()
    assert tracker.mlflow_run_id is not None
    return tracker.mlflow_run_id


def status(home: Home, mlflow_run_id: str) -> str:
    with reaching_mlflow(home) as client:
        return str(client.get_run(mlflow_run_id).info.status)


def test_the_run_of_a_killed_training_is_killed(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    run = begun(tracked_home, toy_config, toy_dataset)
    assert end_dead_mlflow_runs(tracked_home) == 1
    assert status(tracked_home, run) == "KILLED"
    assert end_dead_mlflow_runs(tracked_home) == 0


def test_a_run_whose_folder_is_gone_is_killed(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    """An MLflow run ends as KILLED if its folder does not exist.

    A backup contains no folders of unfinished runs, so a restored rnnlm home has such runs only in its database.
    """
    run = begun(tracked_home, toy_config, toy_dataset)
    shutil.rmtree(tracked_home.runs / RUN_ID)
    assert end_dead_mlflow_runs(tracked_home) == 1
    assert status(tracked_home, run) == "KILLED"


def test_the_run_of_a_living_training_is_left_alone(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    run = begun(tracked_home, toy_config, toy_dataset)
    with tracked_home.lock(f"run-{RUN_ID}"):  # Hold the lock of run_training().
        assert end_dead_mlflow_runs(tracked_home) == 0
    assert status(tracked_home, run) == "RUNNING"
