from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.registry.model_lookup import model_folder
from rnnlm.stages import is_complete
from tasks.train_model import train_model
from tests.configs import changed


def test_a_run_is_trained_and_tracked(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    config = changed(toy_config, {"training.seed": 9})
    run = train_model.fn(config, toy_dataset)
    assert is_complete(run.folder)
    assert run.mlflow_run_id
    assert model_folder(tracked_home, str(run.folder)) == run.model_folder
    assert train_model.fn(config, toy_dataset).skipped
