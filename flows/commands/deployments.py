"""Set up servers and workers that are started by hand, with `rnnlm deploy` and `rnnlm env`."""

import os
import shlex

from flows.commands.command import Session
from flows.operations.home_servers import read_running
from flows.operations.prefect_environment import home_defaults, server_variables
from rnnlm.errors import ConfigError

HEADING = "Servers"


def env_command(session: Session) -> None:
    """Print variables for servers and workers that are started by hand.

    eval "$(rnnlm env)"
    """
    wanted = home_defaults(session.home) | server_variables(session.home, read_running(session.home))
    variables = {name: os.environ.get(name, value) for name, value in sorted(wanted.items())}
    lines = (f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    session.print_result("\n".join(lines), variables)


def deploy_command(session: Session) -> None:
    """Create the deployments of prefect.yaml on a Prefect server.

    rnnlm deploy
    """
    if "PREFECT_API_URL" not in os.environ:
        raise ConfigError(
            "no Prefect server: start one with rnnlm up, which also deploys, or set PREFECT_API_URL to a server's\n"
            "address, such as PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    from flows.operations.deployments import deploy_all

    names = deploy_all(session.home)
    session.print_result("\n".join(f"deployed   {name}" for name in names), names)
