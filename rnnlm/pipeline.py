"""The stages of the pipeline, one after the other, as plain functions of an rnnlm home and a configuration.

This module does not use Prefect and starts no server. `rnnlm.train` runs it, for instance in a notebook.
flows/pipeline_flow.py calls the same stages as Prefect tasks, with pages and events. Both store every output under the
same digest, so each of them finds the outputs of the other.
"""

from functools import partial

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.measurements import measurements
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.generation.generate import generate_samples
from rnnlm.models.model_factory import check_kind
from rnnlm.registry.bundle_check import CheckProcess
from rnnlm.registry.data_gates import check_gates
from rnnlm.registry.model_owner import named_for_its_model
from rnnlm.registry.registration import register_model
from rnnlm.registry.starting_model import choose_start
from rnnlm.registry.version_tags import Candidate
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import PipelineRecord, PreparedRecord, TrainedRecord
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.tracking.mlflow_runs import open_tracker, tracked_run
from rnnlm.tracking.run_results import log_run_results
from rnnlm.training.samples import write_samples
from rnnlm.training.time_budget import fit_to_minutes
from rnnlm.training.training_run import OpenTracker, run_training


def run_pipeline(home: Home, config: PipelineConfig) -> PipelineRecord:
    """Run all stages, from the corpus to the registered model. A stage with verified output is skipped.

    The lock of the registry excludes only other processes of this machine. If several machines share a registry, models
    should therefore be registered by the flows.
    """
    prepared = prepare_data(home, config)
    trained = train_and_register(home, config, prepared.dataset)
    return PipelineRecord(**dict(prepared), **dict(trained))


def prepare_data(home: Home, config: PipelineConfig) -> PreparedRecord:
    """Run the stages before training. Raise GatesError if a gate stops the run."""
    force = config.force
    check_kind(config.model.kind)
    corpus = obtain_corpus(home, config.corpus, force="corpus" in force)
    corpus = named_for_its_model(home, config, corpus)
    tokenizer = train_tokenizer(home, corpus, config.tokenizer, force="tokenizer" in force)
    dataset = store_sequences(home, corpus, tokenizer, config.sequences, force="sequences" in force)
    describe_dataset(home, dataset, force="sequences" in force)
    gates = check_gates(home, config, dataset)
    gates.raise_if_stopped()
    return PreparedRecord(corpus=corpus, tokenizer=tokenizer, dataset=dataset, score_warnings=gates.score_warnings)


def train_and_register(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> TrainedRecord:
    """Run training and the stages after it."""
    told, config = config, fit_to_minutes(home, config, dataset)
    tracker = partial(open_tracker, home, config, dataset)
    run = train_tracked(home, config, dataset, tracker, force="training" in config.force)
    if not run.skipped:
        CheckProcess.start_early()  # The process imports libraries for the bundle check while the model is evaluated.
    force = "evaluation" in config.force
    evaluation = evaluate_run(home, dataset, run, config.evaluation, force=force)
    measured = [one.measure(home, config, dataset, run, force) for one in measurements(config, run)]
    samples = generate_samples(home, dataset, run, config.generation, force="samples" in config.force)
    plots = [picture for one in measured for picture in one.pictures]
    logged = log_run_results(home, run, evaluation, samples, plots)
    candidate = Candidate(config, dataset, run, evaluation, samples, told)
    registered = register_model(home, candidate, force="registration" in config.force)
    return TrainedRecord(run=run, evaluation=evaluation, samples=samples, registered=registered, logged=logged)


def train_tracked(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, open_tracker: OpenTracker, *, force: bool = False
) -> RunRecord:
    """Train a model with tracking in MLflow. Resume an unfinished run, or return the finished one."""
    start = choose_start(home, config, dataset, force=force)
    run = run_training(home, config, dataset, open_tracker, start=start, force=force, write_samples=write_samples)
    return tracked_run(home, config, dataset, run) if run.skipped else run
