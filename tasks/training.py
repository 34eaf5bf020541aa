"""Choose a network's size, and train the network."""

import contextlib
import logging
from collections.abc import Iterator

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.settings import get_current_settings
from prefect.utilities.urls import url_for

from rnnlm.config import PipelineConfig
from rnnlm.pipeline import train_tracked
from rnnlm.storage.home import find_home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tracking.mlflow_addresses import run_url
from rnnlm.tracking.mlflow_runs import RunOrigin, open_tracker
from rnnlm.tracking.run_names import page_key
from rnnlm.tracking.tracker import RunTracker
from rnnlm.training.time_budget import fit_to_minutes
from tasks.operations.mlflow_pages import server_of_links
from tasks.operations.progress_artifact import shown_progress

logger = logging.getLogger("rnnlm.training")


@task(task_run_name="choose size for {dataset.corpus_name}", cache_policy=NO_CACHE)
def choose_network(config: PipelineConfig, dataset: DatasetRecord) -> PipelineConfig:
    """Choose the network's size and the training length for training.minutes, unless they are configured."""
    return fit_to_minutes(find_home(), config, dataset)


@task(
    task_run_name="train {config.model.layers}x{config.model.units} on {dataset.corpus_name}",
    cache_policy=NO_CACHE,
)
def train_model(config: PipelineConfig, dataset: DatasetRecord, force: bool = False) -> RunRecord:
    """Train a model with tracking in MLflow. An unfinished run is resumed, and a finished run is returned."""
    home = find_home()

    @contextlib.contextmanager
    def open_shown_tracker(run_id: str) -> Iterator[RunTracker]:
        with open_tracker(home, config, dataset, run_id, find_origin()) as tracker:
            url = run_url(home, tracker.mlflow_run_id)
            server = server_of_links(home, tracker.mlflow_run_id) if tracker.mlflow_run_id else "none"
            if url and server == "ours":
                logger.info("training: MLflow run %s", url)
            url = None if server == "another" else url
            with shown_progress(page_key(dataset.corpus_name, "training"), url):
                yield tracker

    return train_tracked(home, config, dataset, open_shown_tracker, force=force)


def find_origin() -> RunOrigin | None:
    """Return the flow run that Prefect's list of runs shows, which is not the subflow of another run."""
    if FlowRunContext.get() is None:
        return None
    with contextlib.suppress(Exception), get_client(sync_client=True) as client:
        root = client.read_flow_run(flow_run.root_flow_run_id)
        deployment = client.read_deployment(root.deployment_id).name if root.deployment_id else ""
        url = url_for("flow-run", root.id) if get_current_settings().server.ui.enabled else None
        return RunOrigin(name=root.name, url=url, deployment=deployment)
    return None
