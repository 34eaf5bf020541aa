"""probe gradients, probe echo: small experiments on gradients and memory."""

import argparse

from flows.commands.parser import (
    CORPUS,
    Commands,
    PrintResult,
    add_command,
    add_config_options,
    add_set_option,
    config_from,
    corpus_config,
)
from rnnlm.home import Home
from rnnlm.probes.probe_config import EchoConfig, GradientProbeConfig

RUNNING_TEXT = "sequences.mode=stream"  # sentences are too short to look far back in


def add_probe_commands(commands: Commands) -> None:
    text = "run a small experiment on gradients or memory"
    probes = commands.add_parser("probe", help=text, description=text[0].upper() + text[1:] + ".").add_subparsers(
        required=True, metavar="PROBE"
    )
    force = argparse.ArgumentParser(add_help=False)
    force.add_argument("--force", action="store_true", help="measure again even if the figures exist")

    gradients = add_command(probes, "gradients", probe_gradients_command, parents=[force])
    gradients.add_argument("--corpus", help=f"{CORPUS} (default: python-docs)")
    add_set_option(gradients)
    add_config_options(
        gradients,
        "probe",
        GradientProbeConfig,
        *("layers", "steps", "rows", "factor", "trained_steps", "learning_rate", "seed"),
        hidden="hidden_size",
    )

    echo = add_command(probes, "echo", probe_echo_command, parents=[force])
    add_config_options(
        echo,
        "probe",
        EchoConfig,
        *("distances", "symbols", "training_steps", "learning_rate", "seed"),
        nonlinearity="nonlinearities",
        initialization="initializations",
        hidden="hidden_size",
    )


def probe_gradients_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Measure how far back gradients reach in networks of each kind.

    rnnlm probe gradients --hidden 64 --steps 40
    """
    config = config_from(options, "probe", GradientProbeConfig)
    pipeline = corpus_config(options, RUNNING_TEXT)
    from flows.operations.flow_runner import run_flow
    from flows.probe_gradients_flow import probe_gradients_flow
    from rnnlm.reports.probe_page import gradients_text

    found = run_flow(home, probe_gradients_flow, config, pipeline, options.force)
    value = {"curves": [curve.model_dump() for curve in found.curves], "picture": str(found.picture)}
    print_result(gradients_text(found), value)


def probe_echo_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Measure how long networks of each kind remember a symbol.

    rnnlm probe echo --distances 1 5 20 --nonlinearity relu
    """
    config = config_from(options, "probe", EchoConfig)
    from flows.operations.flow_runner import run_flow
    from flows.probe_echo_flow import probe_echo_flow
    from rnnlm.reports.probe_page import echo_text

    found = run_flow(home, probe_echo_flow, config, options.force)
    value = {"scores": [score.model_dump() for score in found.scores], "picture": str(found.picture)}
    print_result(echo_text(found), value)
