"""Sample from the champion of a corpus's registered model."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import CorpusConfig, GenerationConfig, RegistryConfig
from rnnlm.corpora.download import corpus_name
from rnnlm.generation.generate import sample_model
from rnnlm.home import find_home
from rnnlm.records import SamplesRecord
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.model_names import registered_name


@task(task_run_name="sample the champion", cache_policy=NO_CACHE)
def sample_champion(corpus: CorpusConfig, registry: RegistryConfig, generation: GenerationConfig) -> SamplesRecord:
    reference = f"models:/{registered_name(registry, corpus_name(corpus))}@champion"
    return sample_model(model_folder(find_home(), reference), generation)
