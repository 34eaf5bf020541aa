"""Texts → scores → how far they lie from the model's own validation text, with an event where that is far."""

from prefect import flow

from flows.operations.dead_runs import ON_RUNNING
from flows.operations.parameters import over_deployment
from rnnlm.reports.scoring import scores_report
from rnnlm.scoring.config import ScoringConfig
from rnnlm.scoring.drift import ScoredRecord
from tasks.compare_scores import compare_scores
from tasks.publish_markdown import publish_markdown
from tasks.raise_drift_event import raise_drift_event
from tasks.score_texts import score_texts


@flow(name="score", flow_run_name="score {config.input}", on_running=ON_RUNNING)
def score_flow(config: ScoringConfig) -> ScoredRecord:
    """Every document of the input scored by the configured model, and what that says of them together."""
    config = over_deployment(config)
    scoring = score_texts(config)
    drift = compare_scores(config, scoring)
    publish_markdown("scores", scores_report(config, scoring, drift))
    raise_drift_event(config, scoring, drift)
    return ScoredRecord(scoring=scoring, drift=drift)
