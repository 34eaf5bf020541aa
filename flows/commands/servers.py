"""deploy: what concerns servers and workers."""

import argparse
import os

from flows.commands.adding import Commands, Say, add
from rnnlm.errors import ConfigError
from rnnlm.home import Home


def add_commands(commands: Commands) -> None:
    add(commands, "deploy", deploy, "work pool and deployments of prefect.yaml, on the server at PREFECT_API_URL")


def deploy(options: argparse.Namespace, home: Home, say: Say) -> None:
    if "PREFECT_API_URL" not in os.environ:
        raise ConfigError(
            "PREFECT_API_URL is not set: start `prefect server start` and give its URL, such as\n"
            "PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    from flows.operations.deploying import deploy_all

    names = deploy_all()
    say("\n".join(f"deployed   {name}" for name in names), names)
