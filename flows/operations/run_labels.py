"""Name and tag flow runs by schedule, corpus, preset and date, without paths and digests."""

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
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.storage.home import find_home
from rnnlm.tracking.run_names import OWN_SCHEDULE, run_name

logger = logging.getLogger(__name__)
MAIN_FLOW = "pipeline"  # The flow whose runs have names without the flow's name.


def flow_run_label() -> str:
    """Return the name of a flow run, such as `tickets · smoke · 23 Nov 02:00` or `score inbox · 23 Nov 05:00`.

    The name of a user's own schedule comes first. Prefect calls this function when a flow run starts. It also adds the
    run's tags, before anything in the run can fail, so that a filter by a tag finds failed runs.
    """
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow is not None
    flow = context.flow.name
    subject, preset, schedule = "", "", ""
    with failures_ignored():  # An invalid configuration is ignored here, because the flow itself reports it.
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
    return name  # The name may not be unique, because the server did not respond.


def distinct_name(context: FlowRunContext, name: str) -> str:
    """Set a unique name for the run, and return it. A second run in the same minute is `… 23 Nov 02:00 (2)`."""
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
    """Return the corpus and the preset in a flow's parameters. Each is "" if it is not given."""
    for given in parameters.values():
        if not isinstance(given, Section) or given.subject() is None:
            continue
        choices = {name: parameters[name] for name in FORM_FIELDS if name in parameters}
        if (subject := configuration_of_run(given, **choices).subject()) is not None:
            corpus, preset = subject
            return corpus_name(corpus), preset
    return "", ""


def tag_run(*tags: str) -> None:
    """Add tags to the current flow run. Do nothing outside of a flow run or if the server does not answer."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with failures_ignored(), get_client(sync_client=True) as client:
        before = client.read_flow_run(context.flow_run.id).tags
        client.update_flow_run(context.flow_run.id, tags=sorted({*before, *tags}))


@contextlib.contextmanager
def failures_ignored() -> Iterator[None]:
    """Ignore exceptions in the block, because a run must not fail for lack of a name or tag."""
    try:
        yield
    except Exception as error:
        logger.debug("the flow run's name or tags could not be set: %s", error)
