import pytest

from flows.operations.running import run_flow
from flows.sample_flow import sample_flow
from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from rnnlm.registry.registering import register_model

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_the_champion_writes_samples_on_its_own(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    register_model(tracked_home, toy_config, toy_dataset, toy_run, toy_evaluation, toy_samples)
    samples = run_flow(tracked_home, sample_flow, toy_config)
    assert samples.samples == toy_samples.samples  # the same model, prompts and seed


def test_without_a_champion_the_error_names_the_model(home: Home, toy_config: PipelineConfig) -> None:
    with pytest.raises(ModelError, match="rnnlm-toy"):
        run_flow(home, sample_flow, toy_config)
