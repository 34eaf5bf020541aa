"""The server's process: where it listens, and how it ends."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.serving.app import build_app
from rnnlm.serving.model_loader import followed
from rnnlm.serving.service import Service
from rnnlm.serving.serving_config import ServingConfig


def serve(home: Home, wanted: str | None, config: ServingConfig, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what is running; announce(address, model) once it listens.

    ConfigError where the address cannot be had, ModelError and TrackingError where the model cannot.
    """
    service = Service(followed(home, wanted), config)
    with listening(config) as listener, ending_quietly():
        host = f"[{config.host}]" if ":" in config.host else config.host
        announce(f"http://{host}:{listener.getsockname()[1]}", service.current.label)
        server(service).run(sockets=[listener])


def server(service: Service) -> uvicorn.Server:
    """Ready to run on a listening socket."""
    config = service.config
    return uvicorn.Server(
        uvicorn.Config(
            build_app(service),
            log_config=None,  # the process's own logging stays
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=config.maximum_connections,  # more: 503
            timeout_graceful_shutdown=config.drain_seconds,
        )
    )


@contextlib.contextmanager
def listening(config: ServingConfig) -> Iterator[socket.socket]:
    """A listening socket, so that an address that is taken is told before anything else starts."""
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        listener = socket.create_server((config.host, config.port), family=family, backlog=1_024)
    except OSError as error:
        raise ConfigError(
            f"{config.host}:{config.port}: cannot listen there ({error.strerror or error});\n"
            "give another --port (0: one that is free) or --host"
        ) from error
    with listener:
        yield listener


@contextlib.contextmanager
def ending_quietly() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more when it has drained: by then there is nothing left to end."""
    before = {name: signal.signal(name, lambda *_: None) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
