"""The server for tests of downloads."""

import threading
from collections.abc import Iterator

import pytest

from tests.rnnlm.corpora.loopback import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield http
        http.released.set()
        http.shutdown()
