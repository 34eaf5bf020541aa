"""Texts → scores → how far they lie from the model's own validation text, with an event where that is far."""

from prefect import flow

from flows.operations.flow_start import begin
from rnnlm.reports.scoring_page import scores_report
from rnnlm.scoring.drift import ScoredRecord
from rnnlm.scoring.scoring_config import ScoringConfig
from tasks.compare_scores import compare_scores
from tasks.publish_markdown import publish_markdown
from tasks.raise_drift_event import raise_drift_event
from tasks.score_texts import score_texts


@flow(name="score", flow_run_name="score {config.input}")
def score_flow(config: ScoringConfig) -> ScoredRecord:
    """Every document of the input scored by the configured model, and what that says of them together."""
    config = begin(config)
    scoring = score_texts(config)
    drift = compare_scores(config, scoring)
    publish_markdown("scores", scores_report(config, scoring, drift))
    raise_drift_event(config, scoring, drift)
    return ScoredRecord(scoring=scoring, drift=drift)
