"""Emit a Prefect event if scored texts have drifted, for automations to act on."""

import logging

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.events.worker import EventsWorker

from rnnlm.scoring.bulk_scoring import ScoringRecord
from rnnlm.scoring.drift import Drift
from rnnlm.scoring.scoring_config import ScoringConfig

DRIFT_EVENT = "rnnlm.scores.drifted"


@task(task_run_name="raise drift event", cache_policy=NO_CACHE)
def raise_drift_event(config: ScoringConfig, scoring: ScoringRecord, drift: Drift) -> bool:
    """Emit DRIFT_EVENT about the model if there is drift. Returns whether it was emitted."""
    found = drift.distributions
    if not drift.drifted or found is None:
        return False
    event = emit_event(
        DRIFT_EVENT,
        resource={
            "prefect.resource.id": f"rnnlm.model.{scoring.model_digest[:16]}",
            "prefect.resource.name": scoring.model,
        },
        payload={
            "input": config.input,
            "output": str(scoring.output),
            "distance": found.distance,
            "threshold": drift.threshold,
            "noise": found.noise,
            "documents": found.documents,
            "reference_documents": found.reference_documents,
            "quantiles": found.quantiles,
        },
    )
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)  # it would warn about waiting
    EventsWorker.instance().drain()  # wait for the sending thread: the process may end soon
    return event is not None
