"""Train a model on a dataset, tracked in MLflow; the run's folder gets the best weights."""

import contextlib
import contextvars
import logging
import threading
from collections.abc import Iterator
from typing import cast
from uuid import UUID

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.settings import get_current_settings
from prefect.utilities.urls import url_for

from rnnlm.config import PipelineConfig
from rnnlm.home import find_home
from rnnlm.progress import ProgressReport, listening
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.registry.starting_model import choose_start
from rnnlm.run_names import page_key
from rnnlm.tracking.mlflow_runs import open_tracker, tracked_run_url
from rnnlm.tracking.run_origin import RunOrigin
from rnnlm.tracking.tracker import RunTracker
from rnnlm.training.training_run import run_training

logger = logging.getLogger("rnnlm.training")
LAST_REPORT_SECONDS = 10.0  # that the end of training waits for a slow Prefect server


@task(
    task_run_name="train {config.model.layers}x{config.model.hidden_size} on {dataset.corpus_name}",
    cache_policy=NO_CACHE,
)
def train_model(config: PipelineConfig, dataset: DatasetRecord, force: bool = False) -> RunRecord:
    """Train for the configured number of epochs, resume an unfinished run, or find the finished one."""
    home = find_home()

    @contextlib.contextmanager
    def open_shown_tracker(run_id: str) -> Iterator[RunTracker]:
        with open_tracker(home, config, dataset, run_id, find_origin()) as tracker:
            url = tracked_run_url(home, tracker.mlflow_run_id)
            if url:
                logger.info("training: MLflow run %s", url)
            with shown_progress(page_key(dataset.corpus_name, "training"), url):
                yield tracker

    start = choose_start(home, config, dataset, force=force)
    return run_training(home, config, dataset, open_shown_tracker, start=start, force=force)


def find_origin() -> RunOrigin | None:
    """The flow run that a person sees in Prefect's list: the one that no other run has started."""
    if FlowRunContext.get() is None:
        return None
    with contextlib.suppress(Exception), get_client(sync_client=True) as client:
        root = client.read_flow_run(flow_run.root_flow_run_id)
        deployment = client.read_deployment(root.deployment_id).name if root.deployment_id else ""
        url = url_for("flow-run", root.id) if get_current_settings().server.ui.enabled else None
        return RunOrigin(name=root.name, url=url, deployment=deployment)
    return None


@contextlib.contextmanager
def shown_progress(key: str, mlflow_url: str | None) -> Iterator[None]:
    """A progress artifact of the task run, updated with every progress report while the block runs.

    Best effort, in a thread of its own: a slow or absent Prefect server does not delay training.
    """
    if FlowRunContext.get() is None:
        yield
        return
    link = f" · [MLflow run]({mlflow_url})" if mlflow_url else ""
    latest = LatestReport()
    context = contextvars.copy_context()  # Prefect finds the task run in it
    thread = threading.Thread(target=context.run, args=(publish, key, link, latest), daemon=True)
    thread.start()
    try:
        with listening(latest.put):
            yield
        latest.put(ProgressReport("training: done", 1.0))
    finally:
        latest.close()
        thread.join(LAST_REPORT_SECONDS)


class LatestReport:
    """Hands the newest report to another thread; older ones that it did not take are dropped."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.report: ProgressReport | None = ProgressReport("training: starts", 0.0)
        self.closed = False

    def put(self, report: ProgressReport) -> None:
        with self.changed:
            self.report = report
            self.changed.notify()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify()

    def take(self) -> ProgressReport | None:
        """Wait for a new one; None after the last."""
        with self.changed:
            self.changed.wait_for(lambda: self.report is not None or self.closed)
            report, self.report = self.report, None
            return report


def publish(key: str, link: str, latest: LatestReport) -> None:
    """Until there is no further report; a failure is tried again with the next one."""
    artifact_id: UUID | None = None
    while (report := latest.take()) is not None:
        percent, description = round(100 * report.share, 1), f"{report.line}{link}"
        try:
            if artifact_id is None:
                artifact_id = cast(UUID, create_progress_artifact(percent, key=key, description=description))
            else:
                update_progress_artifact(artifact_id, percent, description=description)
        except Exception as error:
            logger.debug("progress artifact: %s", error)
