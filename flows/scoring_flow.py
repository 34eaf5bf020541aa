"""Score many texts, and keep or drop texts by their scores."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from rnnlm.extensions.scoring.drift import ScoredRecord, drift_events
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.filter_page import filter_page
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.scoring_page import scoring_page
from rnnlm.extensions.scoring.text_filter import FilterRecord, check_filter, scoring_of
from tasks.registration import raise_events
from tasks.scoring import compare_scores, filter_input, list_strange_documents, score_input


@rnnlm_flow("score")
def score_flow(config: ScoringConfig) -> ScoredRecord:
    """Score every document of the input with the configured model, and emit an event if the scores have drifted."""
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


@rnnlm_flow("filter")
def filter_flow(config: FilterConfig) -> FilterRecord:
    """Score every document of the input with the configured model, and write the kept and the dropped documents."""
    config = start_flow_run(config)
    check_filter(config)
    found = filter_input(config, score_input(scoring_of(config)))
    create_markdown_artifact(
        filter_page(config, found).markdown(), key="filter", description=f"Filter of {config.input}"
    )
    return found
