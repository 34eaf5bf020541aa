"""Combine trained networks into one model."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.extensions.ensembles.ensemble_run import Member, make_ensemble
from rnnlm.storage.home import find_home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tracking.mlflow_runs import tracked_run


@task(task_run_name="mix {dataset.corpus_name}", cache_policy=NO_CACHE)
def mix_networks(members: list[Member], dataset: DatasetRecord) -> RunRecord:
    """Combine the networks of finished runs into an ensemble, which is stored as a new run with an MLflow run."""
    home = find_home()
    return tracked_run(home, members[0].config, dataset, make_ensemble(home, members, dataset))
