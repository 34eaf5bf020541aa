"""run, prepare, train, join: run the pipeline or a part of it; env, deploy: set up servers and deployments."""

import argparse
import logging
import os
import shlex
import sys

from flows.commands.parser import Commands, PrintResult, add_command, pipeline_config, pipeline_options
from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.records import DatasetRecord


def add_pipeline_commands(commands: Commands) -> None:
    shared = [pipeline_options()]
    add_command(commands, "run", run_command, parents=shared)
    add_command(commands, "prepare", prepare_command, parents=shared)
    train = add_command(commands, "train", train_command, parents=shared)
    train.add_argument("--resume", metavar="RUN", help="continue an unfinished run: its id, the start of it, or folder")

    join = add_command(commands, "join", join_command)
    meeting_point = "the run's training.distributed.rendezvous; RNNLM_HOME is shared"
    join.add_argument("rendezvous", metavar="HOST:PORT", help=meeting_point)

    add_command(commands, "env", env_command)
    add_command(commands, "deploy", deploy_command)


def run_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Run the whole pipeline, from corpus to registered model.

    rnnlm run --preset smoke --corpus my-text.txt
    rnnlm run --set model.hidden_size=256 --force training
    """
    config = training_config(options)
    from flows.operations.flow_runner import run_flow
    from flows.pipeline_flow import pipeline_flow
    from rnnlm.reports.pipeline_page import pipeline_json, pipeline_summary

    record = run_flow(home, pipeline_flow, config)
    print_result(pipeline_summary(record), pipeline_json(record))


def prepare_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Prepare a corpus: download, train the tokenizer, store sequences.

    rnnlm prepare --corpus my-text.txt --set tokenizer.kind=bpe
    """
    config = pipeline_config(options)
    from flows.operations.flow_runner import run_flow
    from flows.pipeline_flow import prepare_flow

    prepared = run_flow(home, prepare_flow, config)
    print_result(f"dataset    {prepared.dataset.folder}", prepared.model_dump(mode="json"))


def train_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Train, evaluate and register a model on the prepared corpus.

    rnnlm train --corpus my-text.txt --set training.epochs=5
    rnnlm train --resume 3f2a
    """
    config, dataset = resumed(options, home) if options.resume else (training_config(options), None)
    from flows.operations.flow_runner import run_flow
    from flows.pipeline_flow import train_flow
    from rnnlm.reports.pipeline_page import trained_summary

    trained = run_flow(home, train_flow, config, dataset)
    print_result(trained_summary(trained), trained.model_dump(mode="json"))


def training_config(options: argparse.Namespace) -> PipelineConfig:
    """The configuration; refuses a device that this machine lacks before a Prefect server is started."""
    config = pipeline_config(options)
    if config.training.device not in ("auto", "cpu"):
        from rnnlm.training.devices import choose_device

        choose_device(config.training.device)
    return config


def resumed(options: argparse.Namespace, home: Home) -> tuple[PipelineConfig, DatasetRecord]:
    """The configuration and dataset that the unfinished run started with."""
    if options.corpus or options.set or options.force or options.preset != "default":
        raise ConfigError(
            "--resume continues with the run's own configuration;\n"
            "leave out --corpus, --preset, --set and --force, or leave out --resume to train another run"
        )
    from rnnlm.training.checkpointing.run_lookup import find_unfinished

    return find_unfinished(home, options.resume)


def join_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Train as another node of a run started with training.distributed.rendezvous.

    rnnlm join node-0:29500
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("rnnlm").setLevel(logging.INFO)
    from rnnlm.training.distributed import join

    run_id = join.join(home, options.rendezvous)
    print_result(f"run        {home.runs / run_id}", {"run_id": run_id})


def env_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Print variables for servers and workers.

    eval "$(rnnlm env)"
    """
    from flows.operations.prefect_environment import server_environment

    variables = server_environment(home)
    print_result("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()), variables)


def deploy_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Create the deployments of prefect.yaml on a Prefect server.

    eval "$(rnnlm env)"; rnnlm deploy
    """
    if "PREFECT_API_URL" not in os.environ:
        raise ConfigError(
            'PREFECT_API_URL is not set: run eval "$(rnnlm env)" and prefect server start, or set it to a server\'s\n'
            "address, such as PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    from flows.operations.deployments import deploy_all

    names = deploy_all(home)
    print_result("\n".join(f"deployed   {name}" for name in names), names)
