"""env, deploy: what concerns servers and workers."""

import argparse
import os
import shlex

from flows.commands.parser import Commands, Say, add
from rnnlm.errors import ConfigError
from rnnlm.home import Home


def add_commands(commands: Commands) -> None:
    add(commands, "env", env, 'the variables that servers and workers need: eval "$(rnnlm env)"')
    add(commands, "deploy", deploy, "work pool and deployments of prefect.yaml, on the server at PREFECT_API_URL")


def env(options: argparse.Namespace, home: Home, say: Say) -> None:
    from flows.operations.prefect_environment import server_environment

    variables = server_environment(home)
    say("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()), variables)


def deploy(options: argparse.Namespace, home: Home, say: Say) -> None:
    if "PREFECT_API_URL" not in os.environ:
        raise ConfigError(
            'PREFECT_API_URL is not set: run eval "$(rnnlm env)" and prefect server start, or give the URL of a\n'
            "server, such as PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    from flows.operations.deployments import deploy_all

    names = deploy_all(home)
    say("\n".join(f"deployed   {name}" for name in names), names)
