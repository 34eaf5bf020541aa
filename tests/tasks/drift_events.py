"""Query the drift events on the Prefect server, for the tests of the task and the flow."""

import time
from pathlib import Path
from typing import Any

import httpx
from prefect.settings import get_current_settings

from rnnlm.extensions.scoring import SCORES_DRIFTED

PERSISTED_WITHIN_SECONDS = 60  # The time in seconds within which the server stores a received event.


def drift_events(folder: Path) -> list[dict[str, Any]]:
    """Return the drift events about scores that were written to the folder."""
    answer = httpx.post(
        f"{get_current_settings().api.url}/events/filter",
        json={"filter": {"event": {"name": [SCORES_DRIFTED]}}},
        timeout=30,
    )
    answer.raise_for_status()
    return [event for event in answer.json()["events"] if Path(event["payload"]["output"]).parent == folder]


def awaited_drift_events(folder: Path) -> list[dict[str, Any]]:
    """Wait for drift events of the folder, and return them."""
    end = time.monotonic() + PERSISTED_WITHIN_SECONDS
    while not (found := drift_events(folder)):
        assert time.monotonic() < end, f"no event {SCORES_DRIFTED} within {PERSISTED_WITHIN_SECONDS} s"
        time.sleep(0.5)
    return found
