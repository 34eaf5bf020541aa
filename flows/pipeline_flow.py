"""The pipeline: text in, registered recurrent language model out. Read this file first.

    prepare   1. download_corpus      fetch the text and store it as UTF-8, named by its sha256
              2. train_tokenizer      learn the vocabulary from the training split
              3. store_sequences      tokenize into one checked DuckDB file of shifted sequences
              4. describe_sequences   report sizes, lengths, vocabulary and duplicates
              5. check_gates          compare the text with the champion's; warn, or stop here
              6. raise_events         tell automations of drift, and why the run stopped
    train     7. train_model          train the Elman network with checkpoints, anew or from the champion's weights
              8. evaluate_perplexity  score whole splits beside the baselines
              9. keep_references      store validation scores that `rnnlm score` compares texts with
             10. measure_surprise     find the sentences, positions and words with the highest loss
             11. probe_gradients      measure how far back gradients reach (optional)
                 probe_positions      measure accuracy by position in the row (optional)
             12. generate_samples     continue the configured prompts
             13. log_results          send scores, samples and plots to MLflow
             14. register_model       add a version to the registry, as champion or challenger
             15. raise_events         tell automations of a new champion or a worse candidate

Each output is named by a digest of everything it depends on, so a stage whose verified output exists is skipped;
`config.force` names stages to run again.
"""

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.operations.flow_start import start_flow_run
from flows.operations.run_limits import run_limits
from rnnlm.config import PipelineConfig
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, PipelineRecord, PreparedRecord, TrainedRecord
from rnnlm.registry.night_events import gate_events, registration_events
from rnnlm.reports.gates_page import gates_report
from rnnlm.reports.pipeline_page import (
    corpus_report,
    samples_report,
    sequences_report,
    tokenizer_report,
    training_report,
)
from rnnlm.reports.probe_page import gradient_report, positions_report
from rnnlm.reports.registry_page import registration_report
from rnnlm.text_layout import picture_report
from tasks.check_gates import check_gates
from tasks.describe_sequences import describe_sequences
from tasks.download_corpus import download_corpus
from tasks.evaluate_perplexity import evaluate_perplexity
from tasks.generate_samples import generate_samples
from tasks.keep_references import keep_references
from tasks.log_results import log_results
from tasks.measure_surprise import measure_surprise
from tasks.probe_gradients import probe_gradients
from tasks.probe_positions import probe_positions
from tasks.raise_events import raise_events
from tasks.register_model import register_model
from tasks.store_sequences import store_sequences
from tasks.train_model import train_model
from tasks.train_tokenizer import train_tokenizer


@flow(name="pipeline", flow_run_name="pipeline of {config.corpus.public_source}")
def pipeline_flow(config: PipelineConfig = PipelineConfig()) -> PipelineRecord:
    """Run every stage, from the corpus to the registered model."""
    config = start_flow_run(config)
    with run_limits(config.limits):
        prepared = prepare_flow(config)
        trained = train_flow(config, prepared.dataset)
    return PipelineRecord(**dict(prepared), **dict(trained))


@flow(name="prepare", flow_run_name="prepare {config.corpus.public_source}")
def prepare_flow(config: PipelineConfig = PipelineConfig()) -> PreparedRecord:
    """Corpus → tokenizer → sequences: one checked DuckDB file with its tokenizer beside it."""
    config = start_flow_run(config)
    corpus = download_corpus(config.corpus, force="corpus" in config.force)
    create_markdown_artifact(corpus_report(corpus), key="corpus")

    tokenizer = train_tokenizer(corpus, config.tokenizer, force="tokenizer" in config.force)
    create_markdown_artifact(tokenizer_report(tokenizer), key="tokenizer")

    dataset = store_sequences(corpus, tokenizer, config.sequences, force="sequences" in config.force)
    create_markdown_artifact(sequences_report(dataset), key="sequences")
    create_markdown_artifact(describe_sequences(dataset, force="sequences" in config.force), key="description")

    gates = check_gates(config, dataset)
    create_markdown_artifact(gates_report(gates), key="gates")
    raise_events(gate_events(gates))
    gates.raise_if_stopped()
    return PreparedRecord(corpus=corpus, tokenizer=tokenizer, dataset=dataset)


@flow(name="train", flow_run_name="train on {config.corpus.public_source}")
def train_flow(config: PipelineConfig = PipelineConfig(), dataset: DatasetRecord | None = None) -> TrainedRecord:
    """Dataset → trained, evaluated, sampled and registered model. Without a dataset, prepares the configured one."""
    config = start_flow_run(config)
    dataset = dataset or prepare_flow(config).dataset
    run = train_model(config, dataset, force="training" in config.force)
    create_markdown_artifact(training_report(run, config.model, config.training), key="training")

    force = "evaluation" in config.force
    evaluation = evaluate_perplexity(dataset, run, config.evaluation, force=force)
    create_table_artifact(score_rows(evaluation), key="perplexity", description="Perplexity beside the baselines")
    keep_references(dataset, run, force=force)
    create_markdown_artifact(measure_surprise(dataset, run, config.evaluation, force=force), key="surprise")

    plots = []
    if config.probes.gradient_flow:
        gradients = probe_gradients(dataset, run, config.probes, force=force)
        create_markdown_artifact(gradient_report(gradients), key="gradient-flow")
        plots.append(gradients.picture)
    if config.probes.positions:
        positions = probe_positions(dataset, run, config.probes, force=force)
        create_markdown_artifact(positions_report(positions), key="positions")
        plots.append(positions.picture)

    samples = generate_samples(dataset, run, config.generation, force="samples" in config.force)
    create_markdown_artifact(samples_report(samples), key="samples")

    logged = log_results(run, evaluation, samples, tuple(plots))
    if logged.loss_curve:
        create_markdown_artifact(picture_report("Loss curve", logged.loss_curve), key="loss-curve")
    if logged.run_url:
        create_link_artifact(logged.run_url, "The run in MLflow", key="mlflow-run", description="The run in MLflow")

    registered = register_model(config, dataset, run, evaluation, samples, force="registration" in config.force)
    create_markdown_artifact(registration_report(registered, evaluation), key="registration")
    raise_events(registration_events(find_home(), registered, evaluation, dataset.corpus_name))
    return TrainedRecord(run=run, evaluation=evaluation, samples=samples, registered=registered)


if __name__ == "__main__":
    pipeline_flow()
