"""Average the probabilities of several networks in an ensemble, which is registered like a trained model."""

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from flows.pipeline_flow import evaluate_and_register, publish_summary
from rnnlm.extensions.ensembles.ensemble_run import MixConfig, find_members
from rnnlm.registry.model_lookup import run_model_folder
from rnnlm.storage.home import find_home
from rnnlm.storage.result_records import TrainedRecord
from tasks.ensembles import mix_networks


@rnnlm_flow("mix")
def mix_flow(config: MixConfig) -> TrainedRecord:
    """Fit the mixture weights of the configured networks on their validation text, and register the ensemble."""
    config = start_flow_run(config)
    home = find_home()
    members, dataset = find_members(home, [run_model_folder(home, name) for name in config.models])
    settings = members[0].config
    mixed = evaluate_and_register(settings, dataset, mix_networks(members, dataset))
    publish_summary(settings, dataset.corpus_name, mixed, ())
    return mixed
