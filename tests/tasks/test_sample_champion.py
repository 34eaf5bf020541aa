import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.records import SamplesRecord
from tasks.sample_champion import sample_champion
from tests.registrar import Registrar


@pytest.mark.long
def test_the_champion_writes_what_its_run_wrote(
    register: Registrar, toy_config: PipelineConfig, toy_samples: SamplesRecord
) -> None:
    with pytest.raises(ModelError, match="rnnlm-toy"):
        sample_champion.fn(toy_config.corpus, toy_config.registry, toy_config.generation)
    register()
    samples = sample_champion.fn(toy_config.corpus, toy_config.registry, toy_config.generation)
    assert samples.samples == toy_samples.samples
