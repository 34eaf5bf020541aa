"""run, prepare, train, join: run the pipeline or a part of it."""

import logging
import sys
from typing import Annotated

import typer

from flows.commands.command import FlowSession, Session, add_command
from flows.commands.options import (
    ConfigFile,
    Corpus,
    Engine,
    Epochs,
    Force,
    HiddenSize,
    Minutes,
    Preset,
    RayAddress,
    Set,
    Verify,
    complete_runs,
    pipeline_config,
)
from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.presets import parse_override
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import forget_verified

APP = typer.Typer()
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Continue an unfinished run: its id, the start of it, or its folder. "
        "Only --set training.distributed.processes (launcher, nodes, rendezvous, restarts) may change it.",
        autocompletion=complete_runs,
    ),
]


def run_command(
    session: FlowSession,
    corpus: Corpus = None,
    preset: Preset = None,
    config: ConfigFile = None,
    minutes: Minutes = None,
    epochs: Epochs = None,
    hidden_size: HiddenSize = None,
    engine: Engine = None,
    ray_address: RayAddress = None,
    set: Set = None,
    force: Force = None,
    verify: Verify = False,
) -> None:
    """Run the whole pipeline, from corpus to registered model.

    rnnlm run --preset smoke --corpus my-text.txt
    rnnlm run --corpus my-text.txt --minutes 10
    rnnlm run --set model.hidden_size=256 --force training
    """
    settings = pipeline_config(corpus, preset, config, set, force, minutes, epochs, hidden_size, engine, ray_address)
    check_device(settings)
    if verify:
        forget_verified(session.home)
    from flows.pipeline_flow import pipeline_flow
    from rnnlm.reports.pipeline_page import pipeline_json, pipeline_summary

    record = session.run_flow(pipeline_flow, config=settings)
    session.print_result(pipeline_summary(record), pipeline_json(record))


def prepare_command(
    session: FlowSession,
    corpus: Corpus = None,
    preset: Preset = None,
    config: ConfigFile = None,
    engine: Engine = None,
    ray_address: RayAddress = None,
    set: Set = None,
    force: Force = None,
    verify: Verify = False,
) -> None:
    """Prepare a corpus: download, train the tokenizer, store sequences.

    rnnlm prepare --corpus my-text.txt --set tokenizer.kind=bpe
    rnnlm prepare --corpus my-text.txt --engine ray
    """
    settings = pipeline_config(corpus, preset, config, set, force, engine=engine, ray_address=ray_address)
    if verify:
        forget_verified(session.home)
    from flows.pipeline_flow import prepare_flow
    from rnnlm.reports.pipeline_page import prepared_summary

    prepared = session.run_flow(prepare_flow, settings)
    session.print_result(prepared_summary(prepared), prepared.model_dump(mode="json"))


def train_command(
    session: FlowSession,
    corpus: Corpus = None,
    preset: Preset = None,
    config: ConfigFile = None,
    minutes: Minutes = None,
    epochs: Epochs = None,
    hidden_size: HiddenSize = None,
    set: Set = None,
    force: Force = None,
    verify: Verify = False,
    resume: Resume = None,
) -> None:
    """Train, evaluate and register a model on the prepared corpus.

    rnnlm train --corpus my-text.txt --epochs 5
    rnnlm train --resume 3f2a
    rnnlm train --resume 3f2a --set training.distributed.processes=2
    """
    if resume is None:
        settings, dataset = pipeline_config(corpus, preset, config, set, force, minutes, epochs, hidden_size), None
        check_device(settings)
    elif any((corpus, config, minutes, epochs, hidden_size, force)) or preset is not None:
        raise ConfigError(
            "--resume continues with the run's own configuration;\n"
            "leave out the other options, or leave out --resume to train another run"
        )
    else:
        settings, dataset = unfinished_run(session.home, resume, set or [])
    if verify:
        forget_verified(session.home)
    from flows.pipeline_flow import train_flow
    from rnnlm.reports.pipeline_page import trained_summary

    trained = session.run_flow(train_flow, settings, dataset)
    session.print_result(trained_summary(trained), trained.model_dump(mode="json"))


def check_device(config: PipelineConfig) -> None:
    """Refuse a device that this machine lacks, before a Prefect server is started."""
    if config.training.device not in ("auto", "cpu"):
        from rnnlm.models.devices import choose_device

        choose_device(config.training.device)


def unfinished_run(home: Home, run: str, overrides: list[str]) -> tuple[PipelineConfig, DatasetRecord]:
    """The configuration and dataset that the unfinished run started with, and where it runs from now on."""
    from rnnlm.training.checkpointing.run_lookup import find_unfinished

    return find_unfinished(home, run, dict(map(parse_override, overrides)))


def join_command(
    session: Session,
    rendezvous: Annotated[
        str,
        typer.Argument(metavar="HOST:PORT", help="The run's training.distributed.rendezvous; RNNLM_HOME is shared."),
    ],
) -> None:
    """Train as another node of a run started with training.distributed.rendezvous.

    rnnlm join node-0:29500
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("rnnlm").setLevel(logging.INFO)
    from rnnlm.training.distributed import join

    run_id = join.join(session.home, rendezvous)
    session.print_result(f"run        {session.home.runs / run_id}", {"run_id": run_id})


add_command(APP, "run", run_command)
add_command(APP, "prepare", prepare_command)
add_command(APP, "train", train_command)
add_command(APP, "join", join_command)
