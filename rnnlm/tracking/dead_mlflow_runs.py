"""A function that ends the MLflow runs of killed training processes, which MLflow would otherwise show as RUNNING."""

import logging

from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.tracking.mlflow_store import best_effort, is_embedded, is_empty, reaching_mlflow

logger = logging.getLogger(__name__)


def end_dead_mlflow_runs(home: Home) -> int:
    """End the MLflow runs of killed training processes as KILLED, and return the number of these runs.

    These are RUNNING runs of this rnnlm home whose process no longer exists. If such a run is resumed later, it
    continues its MLflow run.
    """
    if is_empty(home) or not home.runs.exists():
        return 0
    ended = 0
    with best_effort("the end of killed runs"), reaching_mlflow(home) as client:
        experiments = [found.experiment_id for found in client.search_experiments()]
        for run in client.search_runs(experiments, "attributes.status = 'RUNNING' and tags.`rnnlm.run_id` != ''"):
            run_id = run.data.tags["rnnlm.run_id"]
            folder = inside(home.runs, run_id)
            spool = RunFolder(folder).tracking
            is_ours = spool.get("mlflow_run_id") == run.info.run_id
            # In a store that only this rnnlm home uses, a run without a folder is from a backup, or its folder was
            # removed.
            is_left_behind = is_embedded(home) and not folder.exists()
            if (is_ours or is_left_behind) and not is_training(home, run_id):
                client.set_terminated(run.info.run_id, status="KILLED")
                logger.warning(
                    "the process that trained MLflow run %s was killed; the MLflow run now has the status KILLED",
                    run.info.run_name,
                )
                ended += 1
    return ended


def is_training(home: Home, run_id: str) -> bool:
    """Return True if a process holds the run's lock, as run_training() does."""
    with home.lock_if_free(f"run-{run_id}") as free:
        return not free
