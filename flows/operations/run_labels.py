"""Names and tags of flow runs: schedule, corpus, preset and date, without paths and digests."""

import contextlib
import itertools
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.context import FlowRunContext

from flows.operations.run_configuration import FORM_FIELDS, configuration_of_run
from rnnlm.config import Section
from rnnlm.corpora.source_names import corpus_name
from rnnlm.storage.home import find_home
from rnnlm.tracking.run_names import OWN_SCHEDULE, run_name

logger = logging.getLogger(__name__)
MAIN_FLOW = "pipeline"  # runs of this flow are named without it


def flow_run_label() -> str:
    """Return a text such as `tickets · smoke · 23 Nov 02:00`, or `score inbox · 23 Nov 05:00`.

    The name of a user's own schedule comes first.

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
    name = run_name(title, preset, planned or datetime.now(UTC))
    with failures_ignored():
        return distinct_name(context, name)
    return name  # the server did not answer


def distinct_name(context: FlowRunContext, name: str) -> str:
    """Give the run its name; the second of a minute is `… 23 Nov 02:00 (2)`. Returns the name."""
    run = context.flow_run
    if run is None:
        return name
    like = FlowRunFilter(name=FlowRunFilterName(like_=name))
    with find_home().lock("run-names"), get_client(sync_client=True) as client:
        taken = {one.name for one in client.read_flow_runs(flow_run_filter=like) if one.id != run.id}
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        free = next(one for one in itertools.chain([name], numbered) if one not in taken)
        client.update_flow_run(run.id, name=free)
    return free


def own_schedule(context: FlowRunContext) -> str:
    """Return the name of the user's own schedule that has started the run, or "" for other runs."""
    run = context.flow_run
    if run is None or run.deployment_id is None:
        return ""
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment(run.deployment_id)
    return deployment.name if OWN_SCHEDULE in deployment.tags else ""


def subject_of(parameters: dict[str, Any]) -> tuple[str, str]:
    """Return the corpus and preset of a flow's parameters; "" for what they do not have."""
    for given in parameters.values():
        if not isinstance(given, Section) or given.subject() is None:
            continue
        choices = {name: parameters[name] for name in FORM_FIELDS if name in parameters}
        if (subject := configuration_of_run(given, **choices).subject()) is not None:
            corpus, preset = subject
            return corpus_name(corpus), preset
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
    """Ignore failures in the block: a wrong name or tag must not fail a run."""
    try:
        yield
    except Exception as error:
        logger.debug("run label: %s", error)
