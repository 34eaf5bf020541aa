"""Train a model on a dataset, tracked in MLflow; the run's folder gets the best weights."""

from functools import partial

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import PipelineConfig
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.registry.starting_model import choose_start
from rnnlm.tracking.mlflow_runs import open_tracker
from rnnlm.training.training_run import run_training


@task(
    task_run_name="train-{config.model.layers}x{config.model.hidden_size}-on-{dataset.corpus_name}",
    cache_policy=NO_CACHE,
)
def train_model(config: PipelineConfig, dataset: DatasetRecord, force: bool = False) -> RunRecord:
    """Take the whole configuration: it is logged with the run."""
    home = find_home()
    start = choose_start(home, config, dataset, force=force)
    tracker = partial(open_tracker, home, config, dataset)
    return run_training(home, config, dataset, tracker, start=start, force=force)
