"""Emit Prefect events about a night, for automations to act on."""

import logging

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.events.worker import EventsWorker

from rnnlm.records import NightEvent


@task(task_run_name="tell automations", cache_policy=NO_CACHE)
def raise_events(events: tuple[NightEvent, ...]) -> int:
    """Returns how many were emitted."""
    emitted = 0
    for event in events:
        sent = emit_event(
            event.name,
            resource={
                "prefect.resource.id": event.resource_id,
                "prefect.resource.name": event.resource_name,
                **event.labels,
            },
            payload={"message": event.message, **event.payload},
        )
        emitted += sent is not None
    if emitted:
        logging.getLogger("EventsWorker").setLevel(logging.ERROR)  # it would warn about waiting
        EventsWorker.instance().drain()  # wait for the sending thread: the process may end soon
    return emitted
