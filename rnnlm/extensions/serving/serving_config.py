"""Options of `rnnlm serve`, and the socket that they name. Limits of a single request are in messages.py.

Imports nothing heavy: a taken port is reported before torch is imported.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from rnnlm.config import Section
from rnnlm.config.bounds import PositiveFloat, PositiveInt, Size
from rnnlm.errors import ConfigError


class ServingConfig(Section):
    """The HTTP service."""

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen at; all but loopback need a token.")
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen at; 0: any free port.")
    token: Annotated[SecretStr, Field(min_length=16)] | None = Field(
        None,
        description="Bearer token that requests must carry; safer in RNNLM_SERVE_TOKEN, as other users see options.",
    )
    maximum_running: int = Field(32, ge=1, le=1_024, description="Prompts continued together.")
    maximum_waiting: int = Field(256, ge=0, le=65_536, description="Prompts, and texts to score, in the queue.")
    maximum_seconds: PositiveFloat = Field(
        60.0, description="Seconds per request; a prompt out of time returns what is written so far."
    )
    maximum_body_bytes: PositiveInt = Field(1 << 20, description="Bytes in a request's body.")
    maximum_connections: Size = Field(1_024, description="Open connections; more are refused with 503.")
    maximum_header_seconds: PositiveFloat = Field(
        10.0, description="Seconds for a connection to send a request's headers; then it is closed."
    )
    poll_seconds: PositiveFloat = Field(2.0, description="Seconds between checks for a new champion.")
    drain_seconds: PositiveInt = Field(30, description="Seconds for running requests to finish after SIGTERM.")

    @model_validator(mode="after")
    def non_loopback_needs_a_token(self) -> "ServingConfig":
        if self.token is None and not self.is_loopback:
            raise ValueError(
                f"host {self.host} is reachable from other machines, so it needs a token;\n"
                "set one of 16 characters or more: export RNNLM_SERVE_TOKEN=$(openssl rand -hex 16)"
            )
        return self

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@contextlib.contextmanager
def bound_socket(config: ServingConfig) -> Iterator[socket.socket]:
    """Give a listening socket. Raise ConfigError if the address is not available."""
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
