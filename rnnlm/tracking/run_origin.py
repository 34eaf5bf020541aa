"""The flow run that started a training: its name and page in the orchestrator."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RunOrigin:
    """A flow run. The library does not know what made it."""

    name: str  # as the orchestrator shows it
    url: str | None = None  # of its page; None if there is none that lasts
    deployment: str = ""  # "" if a person started it by a command
