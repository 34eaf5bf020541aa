"""Continue the configured prompts with a run's model."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import GenerationConfig
from rnnlm.generation import generate
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, RunRecord, SamplesRecord


@task(task_run_name="sample {dataset.corpus_name}", cache_policy=NO_CACHE)
def generate_samples(
    dataset: DatasetRecord, run: RunRecord, config: GenerationConfig, force: bool = False
) -> SamplesRecord:
    return generate.generate_samples(find_home(), dataset, run, config, force=force)
