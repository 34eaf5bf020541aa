"""Options of `rnnlm serve`, and the socket on which it listens. Limits of a single request are in messages.py.

This module does not import torch, so that an address that is already in use is reported at once.
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
    """Settings of the HTTP service."""

    host: str = Field(
        "127.0.0.1", min_length=1, description="Address to listen on. All addresses except loopback need a token."
    )
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on. If 0, a free port is chosen.")
    token: Annotated[SecretStr, Field(min_length=16)] | None = Field(
        None,
        description="Bearer token that requests must send. RNNLM_SERVE_TOKEN is safer, because other users can see "
        "options.",
    )
    maximum_running: int = Field(
        32, ge=1, le=1_024, description="Maximum number of prompts that are continued at the same time."
    )
    maximum_waiting: int = Field(
        256, ge=0, le=65_536, description="Maximum number of waiting prompts, and of waiting texts to score."
    )
    maximum_seconds: PositiveFloat = Field(
        60.0,
        description="Maximum number of seconds that a request may take. A prompt then returns the text generated so "
        "far.",
    )
    maximum_body_bytes: PositiveInt = Field(1 << 20, description="Maximum size of a request's body in bytes.")
    maximum_connections: Size = Field(
        1_024, description="Maximum number of open connections. Further ones are refused with status 503."
    )
    maximum_header_seconds: PositiveFloat = Field(
        10.0, description="Number of seconds after which a connection is closed if it has not sent a request's headers."
    )
    poll_seconds: PositiveFloat = Field(2.0, description="Number of seconds between two checks for a new champion.")
    drain_seconds: PositiveInt = Field(
        30, description="Number of seconds in which running requests may finish after SIGTERM."
    )

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
    """Yield a listening socket. Raise ConfigError if the address is in use or not allowed."""
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
