"""Choose the network's size and the length of its training for the minutes of the configuration."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import PipelineConfig
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord
from rnnlm.training.time_budget import fit_to_minutes


@task(task_run_name="choose size for {dataset.corpus_name}", cache_policy=NO_CACHE)
def choose_size(config: PipelineConfig, dataset: DatasetRecord) -> PipelineConfig:
    """The configuration with numbers for what training.minutes leaves open."""
    return fit_to_minutes(find_home(), config, dataset)
