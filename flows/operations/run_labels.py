"""The name and the tags of a flow run: schedule, corpus, preset and date, without paths and digests."""

import contextlib
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from flows.operations.flow_start import with_deployment_values
from flows.operations.prefect_query import OWN_SCHEDULE
from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora.download import corpus_name
from rnnlm.lab.comparison.comparison_config import CompareConfig
from rnnlm.presets import with_choices
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.tracking.run_names import run_name

logger = logging.getLogger(__name__)
MAIN_FLOW = "pipeline"  # its runs are named without the flow


def flow_run_label() -> str:
    """`tickets · smoke · 23 Nov 02:00`, or `score inbox · 23 Nov 05:00`; of one's own schedule, its name comes first.

    Prefect calls it when a flow run starts. The run is tagged here, too, before anything in it can fail, so that a list
    filtered by a tag shows the failed nights.
    """
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow is not None
    flow = context.flow.name
    subject, preset, schedule = "", "", ""
    with failures_ignored():  # a wrong configuration is reported by the flow itself
        subject, preset = subject_of(context.parameters or {})
        schedule = own_schedule(context)
    planned = context.flow_run.expected_start_time if context.flow_run else None
    title = subject if subject and flow == MAIN_FLOW else f"{flow} {subject}".strip()
    if schedule not in ("", subject):
        title = f"{schedule} · {title}"
    tag_run(*filter(None, (subject, preset, schedule)))
    return run_name(title, preset, planned or datetime.now(UTC))


def own_schedule(context: FlowRunContext) -> str:
    """The name of the user's own schedule that has started the run; "" for other runs."""
    run = context.flow_run
    if run is None or run.deployment_id is None:
        return ""
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment(run.deployment_id)
    return deployment.name if OWN_SCHEDULE in deployment.tags else ""


def subject_of(parameters: dict[str, Any]) -> tuple[str, str]:
    """Corpus and preset of a flow's parameters; "" for what they do not have."""
    for given in parameters.values():
        if isinstance(given, PipelineConfig):
            config = with_choices(
                with_deployment_values(given), parameters.get("corpus", ""), parameters.get("preset", "")
            )
            return corpus_name(config.corpus), config.preset
        if isinstance(given, CompareConfig):
            pipeline = with_deployment_values(given).pipeline
            return corpus_name(pipeline.corpus), pipeline.preset
        if isinstance(given, ScoringConfig):
            return corpus_name(CorpusConfig(source=with_deployment_values(given).input)), ""
    return "", ""


def tag_run(*tags: str) -> None:
    """Add tags to the current flow run; without one, or without a server, nothing happens."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with failures_ignored(), get_client(sync_client=True) as client:
        before = client.read_flow_run(context.flow_run.id).tags
        client.update_flow_run(context.flow_run.id, tags=sorted({*before, *tags}))


@contextlib.contextmanager
def failures_ignored() -> Iterator[None]:
    """Names and tags are no reason to fail a run."""
    try:
        yield
    except Exception as error:
        logger.debug("run label: %s", error)
