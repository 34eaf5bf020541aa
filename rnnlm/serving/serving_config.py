"""What `rnnlm serve` takes; no stage of the pipeline. Bounds on a single request: serving/messages.py."""

import ipaddress
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr, model_validator

from rnnlm.config import Section


class ServingConfig(Section):
    """The HTTP service."""

    host: str = Field("127.0.0.1", min_length=1)  # address to listen at
    port: int = Field(8000, ge=0, le=65_535)  # 0: one that is free
    # That requests carry. Needed unless the host is loopback.
    token: Annotated[SecretStr, Field(min_length=16)] | None = None
    maximum_running: int = Field(32, ge=1, le=1_024)  # prompts stepped together
    maximum_waiting: int = Field(256, ge=0, le=65_536)  # prompts, and texts to score, that wait for their turn
    maximum_seconds: PositiveFloat = 60.0  # a request may take; what is written by then is its answer
    maximum_body_bytes: PositiveInt = 1 << 20  # of a request
    maximum_connections: PositiveInt = 1_024
    poll_seconds: PositiveFloat = 2.0  # between two looks at the alias
    drain_seconds: PositiveInt = 30  # after SIGTERM, for the requests that are running

    @model_validator(mode="after")
    def strangers_need_a_token(self) -> "ServingConfig":
        if self.token is None and not self.is_loopback:
            raise ValueError(f"host {self.host} can be reached from elsewhere: give a token of at least 16 characters")
        return self

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
