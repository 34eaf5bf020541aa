"""Score texts, and keep or drop them by their scores."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from rnnlm.reports.filter_page import filter_page
from rnnlm.scoring.filter_config import FilterConfig
from rnnlm.scoring.text_filter import FilterRecord, check_filter, scoring_of
from tasks.scoring import filter_input, score_input


@rnnlm_flow("filter")
def filter_flow(config: FilterConfig) -> FilterRecord:
    """Score every document of the input with the configured model, and write those kept and those dropped."""
    config = start_flow_run(config)
    check_filter(config)
    found = filter_input(config, score_input(scoring_of(config)))
    create_markdown_artifact(
        filter_page(config, found).markdown(), key="filter", description=f"Filter of {config.input}"
    )
    return found
