"""Run a service on a loopback address in a thread of the test's process, with the code of `rnnlm serve`."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import httpx

from rnnlm.extensions.serving.model_loader import ModelReference
from rnnlm.extensions.serving.model_service import Service
from rnnlm.extensions.serving.server import uvicorn_server
from rnnlm.extensions.serving.serving_config import ServingConfig
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home


class LiveServer:
    """A running service. In the `with` block, `client` sends requests to the service."""

    def __init__(self, reference: ModelReference, config: ServingConfig | None = None) -> None:
        self.service = Service(reference, config or ServingConfig())
        self.server = uvicorn_server(self.service)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.address, timeout=60, trust_env=False)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    def __enter__(self) -> "LiveServer":
        self.thread.start()
        wait_until(lambda: self.server.started or not self.thread.is_alive(), what="the server has started")
        assert self.thread.is_alive()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(timeout=60)
        self.listener.close()


def serving(folder: Path, **settings: object) -> LiveServer:
    """Return a service of the model in `folder`. `settings` are fields of ServingConfig."""
    return LiveServer(ModelReference(Home(folder), folder=folder), ServingConfig.model_validate(settings))


def wait_until(condition: Callable[[], bool], seconds: float = 30, what: str = "") -> None:
    assert poll_until(condition, seconds, every_seconds=0.02), f"not within {seconds} s: {what}"
