"""Open the socket to listen on. Imports nothing heavy: a taken port is told before torch is imported."""

import contextlib
import socket
from collections.abc import Iterator

from rnnlm.errors import ConfigError
from rnnlm.serving.serving_config import ServingConfig


@contextlib.contextmanager
def bound_socket(config: ServingConfig) -> Iterator[socket.socket]:
    """A listening socket, opened first so that a taken address is reported before anything else starts."""
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        listener = socket.create_server((config.host, config.port), family=family, backlog=1_024)
    except OSError as error:
        raise ConfigError(
            f"{config.host}:{config.port}: cannot listen there ({error.strerror or error});\n"
            "choose another --port (0: any free port) or --host"
        ) from error
    with listener:
        yield listener
