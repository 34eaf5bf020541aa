"""The pipeline, which turns a text into a registered recurrent language model. Read this file first.

    prepare   1. download_corpus      fetch the text and store it as UTF-8, named by its sha256
              2. learn_tokenizer      train the tokenizer on the training split
              3. tokenize_corpus      tokenize into one checked DuckDB file of shifted sequences
              4. describe_sequences   report sizes, lengths, vocabulary and duplicates
              5. check_data           compare the text with the champion's; warn, or stop the run
              6. raise_events         send events about drift, and about why the run stopped
    train     7. choose_network       measure this machine's speed; choose size and length for the minutes
              8. train_model          train the model with checkpoints, from random weights or the champion's
              9. evaluate_perplexity  score whole splits with the model and the baselines
             10. measure_model        run the extensions' measurements: surprise, gradients, reference scores
             11. sample_run           continue the configured prompts
             12. log_results          log scores, samples and plots to MLflow
             13. register_run         add a version to the registry, as champion or challenger
             14. raise_events         send events about the result, a new champion or a worse candidate

rnnlm/pipeline.py runs the same stages without Prefect's tasks, pages and events, for `rnnlm.train`. Each output is
named by a digest of everything it depends on. A stage whose verified output exists is skipped. `config.force` names
stages to run again.
"""

import logging

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from flows.operations.run_labels import tag_run
from flows.operations.run_limits import run_limits
from rnnlm.config import PipelineConfig, Promote
from rnnlm.errors import ConfigError
from rnnlm.evaluation.measurements import measurements
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.evaluation.seed_scores import seed_scores
from rnnlm.models.model_factory import check_kind
from rnnlm.registry.bundle_check import CheckProcess
from rnnlm.registry.data_gates import GatesError
from rnnlm.registry.decision_text import unchanged_since
from rnnlm.registry.model_owner import named_for_its_model
from rnnlm.registry.night_events import gate_events, night_ended, registration_events
from rnnlm.reports.dataset_page import gates_report
from rnnlm.reports.pipeline_page import data_report, training_report
from rnnlm.reports.summary_page import summary_report
from rnnlm.storage.home import find_home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import PipelineRecord, PreparedRecord, SeedScores, TrainedRecord
from rnnlm.tracking.run_names import PROMOTED, UNCHANGED, page_key
from tasks.corpus import download_corpus, learn_tokenizer
from tasks.evaluation import evaluate_perplexity, log_results, measure_model, sample_run
from tasks.registration import raise_events, register_run
from tasks.sequences import check_data, describe_sequences, tokenize_corpus
from tasks.training import choose_network, train_model

# The lines of this logger, which is below `rnnlm`, appear on every console and in the run's log.
logger = logging.getLogger("rnnlm.pipeline")


@rnnlm_flow("pipeline")
def pipeline_flow(
    corpus: str = "",
    preset: str = "",
    minutes: float | None = None,
    maximum_tokens: int | None = None,
    settings: list[str] = [],  # noqa: B006  a form shows it as an empty list
    promote: Promote | None = None,
    config: PipelineConfig = PipelineConfig(),
    seeds: int = 1,
) -> PipelineRecord:
    """Run every stage, from the corpus to the registered model. The artifact `CORPUS-summary` describes the result.

    The first six parameters are for people who use the run form. Values that are left empty come from `config`.

    Args:
        corpus: Folder, file, URL, hf:NAME or the name of a known corpus.
        preset: Name of a preset, such as smoke.
        minutes: Minutes of training, for which the size of the network and the number of epochs are chosen.
        maximum_tokens: Largest number of tokens to train on, over all epochs.
        settings: Further settings, as with --set: lines such as training.optimizer.learning_rate=0.002.
        promote: When the model may become champion. With never, it does not. With if_better, it must be shown to be
            better than the champion. With by_policy, the rules of a schedule apply. If this is empty, the model of a
            run with other settings than the schedule's must be better.
        config: Preset and all settings. Fields that are not changed come from the deployment.
        seeds: Number of training runs, with seeds that count up from training.seed. The first model is registered. The
            others show how much the scores depend on the seed.
    """
    config = start_flow_run(
        config,
        corpus=corpus,
        preset=preset,
        minutes=minutes,
        maximum_tokens=maximum_tokens,
        settings=settings,
        promote=promote,
    )
    if seeds > 1 and config.training.start_from != "nothing":
        raise ConfigError(
            "several seeds must start from random weights; set training.start_from=nothing, or seeds to 1"
        )
    with run_limits(config.limits):
        prepared = prepare(config)
        trained = train(config, prepared.dataset)
        if seeds > 1:
            scores = train_other_seeds(config, prepared.dataset, trained, seeds)
            trained = trained.model_copy(update={"seeds": scores})
    record = PipelineRecord(**dict(prepared), **dict(trained))
    publish_summary(config, prepared.dataset.corpus_name, record, prepared.score_warnings)
    return record


@rnnlm_flow("prepare")
def prepare_flow(config: PipelineConfig = PipelineConfig()) -> PreparedRecord:
    """Prepare a corpus: train its tokenizer and store its sequences in one checked DuckDB file.

    Args:
        config: Preset and settings. Fields that are not changed come from the deployment.
    """
    return prepare(start_flow_run(config))


@rnnlm_flow("train")
def train_flow(config: PipelineConfig = PipelineConfig(), dataset: DatasetRecord | None = None) -> TrainedRecord:
    """Train, evaluate, sample and register a model. Without a dataset, the configured one is prepared.

    Args:
        config: Preset and settings. Fields that are not changed come from the deployment.
        dataset: An existing dataset, which is usually not given.
    """
    config = start_flow_run(config)
    score_warnings: tuple[str, ...] = ()
    if dataset is None:
        prepared = prepare(config)
        dataset, score_warnings = prepared.dataset, prepared.score_warnings
    trained = train(config, dataset)
    publish_summary(config, dataset.corpus_name, trained, score_warnings)
    return trained


def prepare(config: PipelineConfig) -> PreparedRecord:
    """Run the stages before training. Raise GatesError if a gate stops the run."""
    check_kind(config.model.kind)
    corpus = download_corpus(config.corpus, force="corpus" in config.force)
    corpus = named_for_its_model(find_home(), config, corpus)
    tokenizer = learn_tokenizer(corpus, config.tokenizer, engine=config.sequences, force="tokenizer" in config.force)
    dataset = tokenize_corpus(corpus, tokenizer, config.sequences, force="sequences" in config.force)
    description = describe_sequences(dataset, force="sequences" in config.force)
    try:
        gates, stopped = check_data(config, dataset), None
    except GatesError as error:
        # The error is raised again below, after pages and events with the reason were published.
        gates, stopped = error.gates, error
    prepared = PreparedRecord(corpus=corpus, tokenizer=tokenizer, dataset=dataset, score_warnings=gates.score_warnings)
    if not dataset.skipped:
        create_markdown_artifact(
            data_report(prepared, gates_report(gates), description),
            key=page_key(corpus.name, "data"),
            description=f"What {corpus.name} is: source, sizes, lengths, vocabulary, duplicates, checks",
        )
    if events := gate_events(gates):
        raise_events(events)
    if stopped:
        create_markdown_artifact(
            gates_report(gates),
            key=page_key(corpus.name, "summary"),
            description=f"Why there was no training on {corpus.name}",
        )
        raise stopped
    return prepared


def train(config: PipelineConfig, dataset: DatasetRecord) -> TrainedRecord:
    """Run training and the stages after it."""
    told, config = config, choose_network(config, dataset)
    return evaluate_and_register(config, dataset, train_model(config, dataset, force="training" in config.force), told)


def evaluate_and_register(
    config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, told: PipelineConfig | None = None
) -> TrainedRecord:
    """Run the stages after training.

    `told` is the configuration that the user gave, before the network's size was chosen.
    """
    name = dataset.corpus_name
    if not run.skipped:
        CheckProcess.start_early()  # The process imports libraries for the bundle check while the model is evaluated.
    force = "evaluation" in config.force
    evaluation = evaluate_perplexity(dataset, run, config.evaluation, force=force)
    measured = [measure_model(one, config, dataset, run, force=force) for one in measurements(config, run)]
    samples = sample_run(dataset, run, config.generation, force="samples" in config.force)

    pages = [one.page for one in measured]
    plots = tuple(picture for one in measured for picture in one.pictures)
    logged = log_results(run, evaluation, samples, plots)
    registered = register_run(config, dataset, run, evaluation, samples, told, force="registration" in config.force)
    trained = TrainedRecord(run=run, evaluation=evaluation, samples=samples, registered=registered, logged=logged)
    # Both artifacts are published only once: if the evaluation was skipped, an earlier run has published them.
    if not evaluation.skipped:
        create_table_artifact(
            score_rows(evaluation), key=page_key(name, "perplexity"), description="Perplexity next to the baselines"
        )
        create_markdown_artifact(
            "\n\n".join([training_report(run, config.model, config.training), *filter(None, pages)]),
            key=page_key(name, "model"),
            description="What the model does: where its loss is high, how far back it reaches",
        )
    return trained


def train_other_seeds(config: PipelineConfig, dataset: DatasetRecord, first: TrainedRecord, seeds: int) -> SeedScores:
    """Train the first run's model again with the following seeds, and return the scores of all runs."""
    # The size is the same as in the first run, because choose_network() returns its stored choice.
    config = choose_network(config, dataset)
    runs, evaluations = [first.run], [first.evaluation]
    for seed in range(config.training.seed + 1, config.training.seed + seeds):
        logger.info("training: seed %d, run %d of %d", seed, len(runs) + 1, seeds)
        training = config.training.model_copy(update={"seed": seed})
        run = train_model(config.model_copy(update={"training": training}), dataset, force="training" in config.force)
        evaluation = evaluate_perplexity(dataset, run, config.evaluation, force="evaluation" in config.force)
        samples = sample_run(dataset, run, config.generation, force="samples" in config.force)
        log_results(run, evaluation, samples)
        runs.append(run)
        evaluations.append(evaluation)
    return seed_scores(runs, evaluations)


def publish_summary(
    config: PipelineConfig, corpus_name: str, record: TrainedRecord, score_warnings: tuple[str, ...]
) -> None:
    """Publish an artifact, events and tags with the results of the run."""
    if record.is_unchanged:
        logger.info("%s: %s, nothing to do", corpus_name, unchanged_since(record))
    create_markdown_artifact(
        summary_report(corpus_name, config.preset, record, score_warnings),
        key=page_key(corpus_name, "summary"),
        description=f"What the run on {corpus_name} has done: scores, decision, stages, samples",
    )
    left_out = record.corpus.left_out if isinstance(record, PipelineRecord) else ()
    changes = registration_events(record.registered, corpus_name)
    raise_events((night_ended(corpus_name, record, left_out), *changes))
    results = {PROMOTED: record.is_promoted, UNCHANGED: record.is_unchanged}
    tag_run(corpus_name, config.preset, *(tag for tag, holds in results.items() if holds))


if __name__ == "__main__":
    pipeline_flow()
