"""Run the pipeline or a part of it with `rnnlm run`, `prepare` and `train`."""

from typing import Annotated

import typer

from flows.commands.command import FlowSession
from flows.commands.option_groups import some_of
from flows.commands.options import PipelineOptions
from rnnlm.config import PipelineConfig
from rnnlm.config.presets import SHORT_SETTINGS, parse_override
from rnnlm.errors import ConfigError
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import forget_verified

HEADING = "Pipeline"
REPEATING = ("set", "force", "verify")


def run_command(
    session: FlowSession,
    options: Annotated[PipelineOptions, some_of("corpus", "preset", "config", *SHORT_SETTINGS, *REPEATING)],
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of training runs. Their seeds count up from training.seed.")
    ] = 1,
) -> None:
    """Run the whole pipeline, from corpus to registered model.

    With --seeds, the first training run is registered, and the mean test perplexity of all runs is reported with its
    confidence interval.

    rnnlm run --preset smoke --corpus my-text.txt
    rnnlm run --preset smoke --corpus my-text.txt --seeds 5
    rnnlm run --corpus my-text.txt --minutes 10
    rnnlm run --set model.hidden_size=256 --promote never
    """
    config = options.pipeline_config()
    check_device(config)
    if options.verify:
        forget_verified(session.home)
    record = session.run_flow("flows.pipeline_flow:pipeline_flow", config=config, seeds=seeds)
    from rnnlm.reports.json_values import run_value
    from rnnlm.reports.pipeline_page import pipeline_summary

    session.print_result(pipeline_summary(record), run_value(record, record.dataset))


def prepare_command(
    session: FlowSession,
    options: Annotated[PipelineOptions, some_of("corpus", "preset", "config", "engine", "ray_address", *REPEATING)],
) -> None:
    """Prepare a corpus: download, train the tokenizer, store sequences.

    rnnlm prepare --corpus my-text.txt --set tokenizer.kind=bpe
    rnnlm prepare --corpus my-text.txt --engine ray
    """
    config = options.pipeline_config()
    if options.verify:
        forget_verified(session.home)
    prepared = session.run_flow("flows.pipeline_flow:prepare_flow", config)
    from rnnlm.reports.json_values import prepared_value
    from rnnlm.reports.pipeline_page import prepared_summary

    session.print_result(prepared_summary(prepared), prepared_value(prepared))


def train_command(
    session: FlowSession,
    options: Annotated[PipelineOptions, some_of("corpus", "preset", "config", *SHORT_SETTINGS, *REPEATING, "resume")],
) -> None:
    """Train, evaluate and register a model on the prepared corpus.

    rnnlm train --corpus my-text.txt --epochs 5
    rnnlm train --resume 3f2a
    rnnlm train --resume 3f2a --set training.distributed.processes=2
    """
    if options.resume is not None:
        config, dataset = unfinished_run(session.home, options)
    else:
        config, dataset = options.pipeline_config(), None
        check_device(config)
    if options.verify:
        forget_verified(session.home)
    trained = session.run_flow("flows.pipeline_flow:train_flow", config, dataset)
    from rnnlm.reports.json_values import run_value
    from rnnlm.reports.pipeline_page import trained_summary
    from rnnlm.sequences.dataset_lookup import dataset_of_run

    session.print_result(trained_summary(trained), run_value(trained, dataset_of_run(session.home, trained.run)))


def check_device(config: PipelineConfig) -> None:
    """Raise an error, before a Prefect server is started, if training needs a device that this machine lacks."""
    training = config.training
    if training.device not in ("auto", "cpu"):
        from rnnlm.training.training_run import elsewhere

        elsewhere(training)


def unfinished_run(home: Home, options: PipelineOptions) -> tuple[PipelineConfig, DatasetRecord]:
    """Return the configuration and the dataset of the run to resume, with the changes by --set."""
    assert options.resume is not None
    if options != PipelineOptions(set=options.set, verify=options.verify, resume=options.resume):
        raise ConfigError(
            "--resume continues with the run's own configuration;\n"
            "leave out the other options, or leave out --resume to train another run"
        )
    from rnnlm.training.checkpointing.run_lookup import find_unfinished

    return find_unfinished(home, options.resume, dict(map(parse_override, options.set or ())))
