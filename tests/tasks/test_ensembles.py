import pytest

from rnnlm.config import PipelineConfig
from rnnlm.extensions.ensembles.ensemble_run import find_members
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.training_run import run_training
from tasks.ensembles import mix_networks
from tests.configs import changed
from tests.conftest import untracked


@pytest.mark.long
def test_a_mix_weighs_each_network_and_beats_them(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    other = run_training(tracked_home, changed(toy_config, {"training.seed": 1}), toy_dataset, untracked)
    members, dataset = find_members(tracked_home, [toy_run.model_folder, other.model_folder])
    mixed = mix_networks.fn(members, dataset)
    assert [member.run_id for member in mixed.members] == [toy_run.run_id, other.run_id]
    assert sum(member.share for member in mixed.members) == pytest.approx(1)
    best = min(member.validation_perplexity for member in mixed.members)
    assert mixed.best_validation_perplexity <= best * (1 + 1e-6)
    with reaching_mlflow(tracked_home) as client:
        assert client.get_run(mixed.mlflow_run_id).info.status == "FINISHED"
    assert mix_networks.fn(members, dataset).skipped
