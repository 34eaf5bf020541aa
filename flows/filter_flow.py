"""Score texts, and keep or drop them by their scores."""

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import plain_failures, start_flow_run
from flows.operations.run_labels import flow_run_label
from rnnlm.reports.filter_page import filter_report
from rnnlm.scoring.filter_config import FilterConfig
from rnnlm.scoring.text_filter import FilterRecord, scoring_of
from tasks.scoring import filter_input, score_input


@flow(name="filter", flow_run_name=flow_run_label)
@plain_failures
def filter_flow(config: FilterConfig) -> FilterRecord:
    """Score every document of the input with the configured model, and write those kept and those dropped."""
    config = start_flow_run(config)
    found = filter_input(config, score_input(scoring_of(config)))
    create_markdown_artifact(filter_report(config, found), key="filter", description=f"Filter of {config.input}")
    return found
