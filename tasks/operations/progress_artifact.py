"""Show the progress of a task run as a progress artifact on the task run's page in Prefect."""

import contextlib
import contextvars
import logging
import queue
import threading
from collections.abc import Iterator
from typing import TypeAlias, cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext

from rnnlm.display.progress import ProgressReport, listening

logger = logging.getLogger("rnnlm.training")
Reports: TypeAlias = "queue.SimpleQueue[ProgressReport | None]"  # A queue of reports. None marks its end.
LAST_REPORT_SECONDS = 10.0  # The seconds for which the end of training may wait for a slow Prefect server.


@contextlib.contextmanager
def shown_progress(key: str, mlflow_url: str | None) -> Iterator[None]:
    """Update a progress artifact of the task run with the progress reports that arrive while the block runs.

    A separate thread sends the updates, and errors are ignored, so that a slow or absent Prefect server does not delay
    training.
    """
    if FlowRunContext.get() is None:
        yield
        return
    link = f" · [MLflow run]({mlflow_url})" if mlflow_url else ""
    reports: Reports = queue.SimpleQueue()
    # Prefect finds the current task run in a context variable, so the thread runs in a copy of the context.
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(publish, key, link, reports), daemon=True)
    thread.start()
    try:
        with listening(reports.put):
            yield
        reports.put(ProgressReport("training: done", 1.0))
    finally:
        reports.put(None)
        thread.join(LAST_REPORT_SECONDS)


def publish(key: str, link: str, reports: Reports) -> None:
    """Publish reports until None arrives. A report that cannot be sent is skipped."""
    artifact_id: UUID | None = None
    report: ProgressReport | None = ProgressReport("training: starts", 0.0)
    while report is not None:
        percent, description = round(100 * report.share, 1), f"{report.line}{link}"
        try:
            if artifact_id is None:
                artifact_id = cast(UUID, create_progress_artifact(percent, key=key, description=description))
            else:
                update_progress_artifact(artifact_id, percent, description=description)
        except Exception as error:
            logger.debug("the progress artifact could not be sent: %s", error)
        report = newest(reports)


def newest(reports: Reports) -> ProgressReport | None:
    """Wait for a report and return the newest one. Older reports are dropped. Return None after the last report."""
    report = reports.get()
    while report is not None and not reports.empty():
        following = reports.get()
        if following is None:
            reports.put(None)
            break
        report = following
    return report
