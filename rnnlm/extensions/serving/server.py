"""Listen, serve and shut down, in the process that `rnnlm serve` starts."""

import asyncio
import contextlib
import functools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rnnlm.extensions.serving.app import build_app
from rnnlm.extensions.serving.model_loader import resolve_reference
from rnnlm.extensions.serving.model_service import Service
from rnnlm.extensions.serving.serving_config import ServingConfig, bound_socket
from rnnlm.runtime.accept_errors import shorten_accept_errors
from rnnlm.storage.home import Home


def serve_model(home: Home, wanted: str | None, config: ServingConfig, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, and then finish running requests.

    announce(address, model) is called as soon as the service listens. Raise ConfigError if the address is in use, and
    ModelError or TrackingError if the model cannot be loaded.
    """
    shorten_accept_errors()
    service = Service(resolve_reference(home, wanted), config)
    with bound_socket(config) as listener, signals_ignored():
        host = f"[{config.host}]" if ":" in config.host else config.host
        announce(f"http://{host}:{listener.getsockname()[1]}", service.current.label)
        uvicorn_server(service).run(sockets=[listener])


def uvicorn_server(service: Service) -> uvicorn.Server:
    """Return a uvicorn server for a socket that already listens."""
    config = service.config
    protocol: Any = functools.partial(HeaderDeadlineProtocol, config.maximum_header_seconds)
    return uvicorn.Server(
        uvicorn.Config(
            build_app(service),
            http=protocol,
            log_config=None,  # uvicorn does not change the logging of this process.
            access_log=False,
            proxy_headers=False,
            server_header=False,
            # The number of connections above which uvicorn responds with status 503.
            limit_concurrency=config.maximum_connections,
            timeout_graceful_shutdown=config.drain_seconds,
        )
    )


class HeaderDeadlineProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for a request's headers, which uvicorn does not have.

    Without the limit, idle clients could occupy all connections that the server accepts. The time starts with the
    connection or with the end of a response, and ends when the next headers are complete.
    """

    def __init__(self, maximum_header_seconds: float, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.maximum_header_seconds = maximum_header_seconds
        self.deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.wait_for_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.stop_if_headers_are_complete()

    def on_response_complete(self) -> None:
        self.wait_for_headers()
        super().on_response_complete()  # This call may begin the next request, if it has already been received.
        self.stop_if_headers_are_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        super().connection_lost(exc)

    def wait_for_headers(self) -> None:
        self.stop_waiting()
        self.deadline = self.loop.call_later(self.maximum_header_seconds, self.transport.close)

    def stop_if_headers_are_complete(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()

    def stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after its shutdown, because the process ends anyway."""
    before = {name: signal.signal(name, lambda *_: None) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
