"""Sequences → trained, evaluated, sampled, registered model."""

from prefect import flow

from flows.operations.evaluate_run import evaluate
from flows.operations.flow_start import begin
from flows.prepare_flow import prepare_flow
from rnnlm.config import PipelineConfig
from rnnlm.records import DatasetRecord, TrainedRecord
from rnnlm.reports.pipeline_page import samples_report, training_report
from rnnlm.reports.registry_page import registration_report
from rnnlm.text_layout import picture_report
from tasks.generate_samples import generate_samples
from tasks.log_results import log_results
from tasks.publish_link import publish_link
from tasks.publish_markdown import publish_markdown
from tasks.register_model import register_model
from tasks.train_model import train_model


@flow(name="train", flow_run_name="train on {config.corpus.public_source}")
def train_flow(config: PipelineConfig = PipelineConfig(), dataset: DatasetRecord | None = None) -> TrainedRecord:
    """A new version in the registry. Without a dataset the configured one is prepared first."""
    config = begin(config)
    dataset = dataset or prepare_flow(config).dataset
    run = train_model(config, dataset, force="training" in config.force)
    publish_markdown("training", training_report(run, config.model, config.training))

    evaluated = evaluate(config, dataset, run)
    evaluation = evaluated.evaluation
    samples = generate_samples(dataset, run, config.generation, force="samples" in config.force)
    publish_markdown("samples", samples_report(samples))

    logged = log_results(run, evaluation, samples, evaluated.pictures)
    if logged.loss_curve:
        publish_markdown("loss-curve", picture_report("Loss curve", logged.loss_curve))
    if logged.run_url:
        publish_link("mlflow-run", logged.run_url, "The run in MLflow")

    registered = register_model(config, dataset, run, evaluation, samples, force="registration" in config.force)
    publish_markdown("registration", registration_report(registered, evaluation))
    return TrainedRecord(run=run, evaluation=evaluation, samples=samples, registered=registered)


if __name__ == "__main__":
    train_flow()
