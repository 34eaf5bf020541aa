"""Listen, serve and shut down: the process behind `rnnlm serve`."""

import contextlib
import signal
from collections.abc import Callable, Iterator

import uvicorn

from rnnlm.home import Home
from rnnlm.serving.app import build_app
from rnnlm.serving.header_deadline import protocol_with_deadline
from rnnlm.serving.listening_socket import bound_socket
from rnnlm.serving.model_loader import resolve_reference
from rnnlm.serving.service import Service
from rnnlm.serving.serving_config import ServingConfig


def serve_model(home: Home, wanted: str | None, config: ServingConfig, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish running requests. Calls announce(address, model) once it listens.

    ConfigError if the address is not available; ModelError or TrackingError if the model is not.
    """
    service = Service(resolve_reference(home, wanted), config)
    with bound_socket(config) as listener, signals_ignored():
        host = f"[{config.host}]" if ":" in config.host else config.host
        announce(f"http://{host}:{listener.getsockname()[1]}", service.current.label)
        uvicorn_server(service).run(sockets=[listener])


def uvicorn_server(service: Service) -> uvicorn.Server:
    """A server to run on a listening socket."""
    config = service.config
    return uvicorn.Server(
        uvicorn.Config(
            build_app(service),
            http=protocol_with_deadline(config.maximum_header_seconds),
            log_config=None,  # keep the process's own logging
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=config.maximum_connections,  # more: 503
            timeout_graceful_shutdown=config.drain_seconds,
        )
    )


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after it has drained: nothing is left to end by then."""
    before = {name: signal.signal(name, lambda *_: None) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
