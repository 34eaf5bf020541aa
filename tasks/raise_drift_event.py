"""An event in Prefect where scored texts have drifted, for automations to act upon."""

import logging

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.events.worker import EventsWorker

from rnnlm.scoring.bulk_scoring import ScoringRecord
from rnnlm.scoring.drift import Drift
from rnnlm.scoring.scoring_config import ScoringConfig

EVENT = "rnnlm.scores.drifted"


@task(task_run_name="drift-event-{scoring.key}", cache_policy=NO_CACHE)
def raise_drift_event(config: ScoringConfig, scoring: ScoringRecord, drift: Drift) -> bool:
    """Emit EVENT about the model, if there is drift. Returns whether it was. Prefect relates it to the flow run."""
    found = drift.distributions
    if not drift.drifted or found is None:
        return False
    event = emit_event(
        EVENT,
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
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)  # it warns that there is something to wait for
    EventsWorker.instance().drain()  # a thread of its own sends events: the process could end before it has
    return event is not None
