"""run, prepare, train: the commands that run a flow; join: a node's part of one that runs elsewhere."""

import argparse
import logging
import sys

from flows.commands.parser import Commands, Say, add, add_configuration, config_of
from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.records import DatasetRecord


def add_commands(commands: Commands) -> None:
    for name, command, text in (
        ("run", run, "the whole pipeline: corpus to registered model"),
        ("prepare", prepare, "corpus, tokenizer and sequences"),
        ("train", train, "train, evaluate and register on the prepared corpus"),
    ):
        sub = add(commands, name, command, text)
        add_configuration(sub)
        if command is train:
            sub.add_argument("--resume", metavar="RUN", help="go on with an unfinished run: id, its beginning, folder")

    sub = add(commands, "join", join, "train as another node of a run that was started elsewhere")
    help = "the run's training.distributed.rendezvous; RNNLM_HOME must be shared"
    sub.add_argument("rendezvous", metavar="HOST:PORT", help=help)


def training_config_of(options: argparse.Namespace) -> PipelineConfig:
    """The configuration, refused here too if it names a device that this machine lacks."""
    config = config_of(options)
    if config.training.device not in ("auto", "cpu"):
        from rnnlm.training.devices import choose_device

        choose_device(config.training.device)
    return config


def run(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = training_config_of(options)
    from flows.operations.flow_runner import run_flow
    from flows.pipeline_flow import pipeline_flow
    from rnnlm.reports.pipeline_page import pipeline_json, pipeline_summary

    record = run_flow(home, pipeline_flow, config)
    say(pipeline_summary(record), pipeline_json(record))


def prepare(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = config_of(options)
    from flows.operations.flow_runner import run_flow
    from flows.prepare_flow import prepare_flow

    prepared = run_flow(home, prepare_flow, config)
    say(f"dataset    {prepared.dataset.folder}", prepared.model_dump(mode="json"))


def train(options: argparse.Namespace, home: Home, say: Say) -> None:
    config, dataset = resumed(options, home) if options.resume else (training_config_of(options), None)
    from flows.operations.flow_runner import run_flow
    from flows.train_flow import train_flow
    from rnnlm.reports.pipeline_page import trained_summary

    trained = run_flow(home, lambda config: train_flow(config, dataset), config)
    say(trained_summary(trained), trained.model_dump(mode="json"))


def join(options: argparse.Namespace, home: Home, say: Say) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("rnnlm").setLevel(logging.INFO)
    from rnnlm.training.distributed import join

    run_id = join.join(home, options.rendezvous)
    say(f"run        {home.runs / run_id}", {"run_id": run_id})


def resumed(options: argparse.Namespace, home: Home) -> tuple[PipelineConfig, DatasetRecord]:
    """The configuration and the dataset with which the run began."""
    if options.corpus or options.set or options.force or options.preset != "default":
        raise ConfigError(
            "--resume goes on with the run's own configuration;\n"
            "leave out --corpus, --preset, --set and --force, or leave out --resume to train another run"
        )
    from rnnlm.training.checkpointing.run_lookup import find_unfinished

    return find_unfinished(home, options.resume)
