"""Progress of the work in a task run, as a progress artifact on its page in Prefect."""

import contextlib
import contextvars
import logging
import threading
from collections.abc import Iterator
from typing import cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext

from rnnlm.display.progress import ProgressReport, listening

logger = logging.getLogger("rnnlm.training")
LAST_REPORT_SECONDS = 10.0  # that the end of training waits for a slow Prefect server


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
