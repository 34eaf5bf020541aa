"""Fixtures for the tests of commands."""

import logging
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def restored_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore os.environ after each test, because `main` sets defaults in it.

    Prefect's log handlers keep the stderr of the test that created them. After it is closed, they must not print
    errors.
    """
    before = dict(os.environ)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    yield
    os.environ.clear()
    os.environ.update(before)
