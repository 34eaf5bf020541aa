"""Score texts in bulk, compare the scores with the model's validation text, and emit an event if they drifted."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from rnnlm.reports.scoring_page import scoring_page
from rnnlm.scoring.drift import ScoredRecord, drift_events
from rnnlm.scoring.scoring_config import ScoringConfig
from tasks.registration import raise_events
from tasks.scoring import compare_scores, list_strange_documents, score_input


@rnnlm_flow("score")
def score_flow(config: ScoringConfig) -> ScoredRecord:
    """Score every document of the input with the configured model."""
    config = start_flow_run(config)
    scoring = score_input(config)
    drift = compare_scores(config, scoring)
    scored = ScoredRecord(scoring=scoring, drift=drift, strange=list_strange_documents(config, scoring))
    create_markdown_artifact(
        scoring_page(config, scored).markdown(), key="scores", description=f"Scores of {config.input}"
    )
    if events := drift_events(config, scoring, drift):
        raise_events(events)
    return scored
