"""The task registers once, and only the world's failures are tried again."""

import pytest
from prefect.states import Failed

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError, TrackingError
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from tasks.register_model import is_tracking_failure, register_model


@pytest.mark.long
def test_registers_the_run_and_skips_the_second_time(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    first, again = (register_model.fn(toy_config, toy_dataset, toy_run, toy_evaluation, toy_samples) for _ in range(2))
    assert (first.name, first.version, first.alias, first.skipped) == ("rnnlm-toy", 1, "champion", False)
    assert (again.version, again.skipped) == (1, True)


@pytest.mark.parametrize(("error", "retried"), [(TrackingError("away"), True), (ModelError("no model"), False)])
def test_only_mlflow_being_away_is_retried(error: Exception, retried: bool) -> None:
    assert register_model.retries == 2
    assert is_tracking_failure(register_model, None, Failed(data=error)) is retried
