import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from rnnlm.registry.registering import register_model
from tasks.sample_champion import sample_champion


def test_the_champion_writes_what_its_run_wrote(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    with pytest.raises(ModelError, match="rnnlm-toy"):
        sample_champion.fn(toy_config.corpus, toy_config.registry, toy_config.generation)
    register_model(tracked_home, toy_config, toy_dataset, toy_run, toy_evaluation, toy_samples)
    samples = sample_champion.fn(toy_config.corpus, toy_config.registry, toy_config.generation)
    assert samples.samples == toy_samples.samples
