"""A trained run → its scores, where it is surprised, how far back its gradients reach."""

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.records import DatasetRecord, EvaluatedRecord, RunRecord
from rnnlm.reports.probe_page import gradient_report, positions_report
from tasks.evaluate_perplexity import evaluate_perplexity
from tasks.keep_references import keep_references
from tasks.measure_surprise import measure_surprise
from tasks.probe_gradients import probe_gradients
from tasks.probe_positions import probe_positions
from tasks.publish_markdown import publish_markdown
from tasks.publish_table import publish_table


def evaluate(config: PipelineConfig, dataset: DatasetRecord, run: RunRecord) -> EvaluatedRecord:
    """Part of a flow, not one: a subflow takes Prefect a second. Everything is measured once and kept with the run."""
    force = "evaluation" in config.force
    evaluation = evaluate_perplexity(dataset, run, config.evaluation, force=force)
    publish_table("perplexity", score_rows(evaluation), "Perplexity beside the baselines")
    keep_references(dataset, run, force=force)
    publish_markdown("surprise", measure_surprise(dataset, run, config.evaluation, force=force))

    pictures = []
    if config.probes.gradient_flow:
        gradients = probe_gradients(dataset, run, config.probes, force=force)
        publish_markdown("gradient-flow", gradient_report(gradients))
        pictures.append(gradients.picture)
    if config.probes.positions:
        positions = probe_positions(dataset, run, config.probes, force=force)
        publish_markdown("positions", positions_report(positions))
        pictures.append(positions.picture)
    return EvaluatedRecord(evaluation=evaluation, pictures=tuple(pictures))
