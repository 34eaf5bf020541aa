"""A fixture with the HTTP server that tests of downloads use."""

import threading
from collections.abc import Iterator

import pytest

from tests.rnnlm.corpora.faulty_server import FaultyServer


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield http
        http.released.set()
        http.shutdown()
