import pytest

from flows.operations.flow_runner import run_flow
from flows.sample_flow import sample_flow
from rnnlm.config import PipelineConfig
from rnnlm.storage.result_records import SamplesRecord
from tests.configs import changed
from tests.registrar import Registrar

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.long
def test_the_champion_writes_samples_on_its_own(
    registered: Registrar, toy_config: PipelineConfig, toy_samples: SamplesRecord
) -> None:
    # Name the model, because the default name depends on the corpus's folder, which differs here.
    config = changed(toy_config, {"registry.model_name": "rnnlm-toy"})
    samples = run_flow(registered.home, sample_flow, config)
    # The same model, prompts and seed give the same samples.
    assert samples.samples == toy_samples.samples
