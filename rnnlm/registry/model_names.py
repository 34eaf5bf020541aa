"""The name a corpus' models are registered under, the two aliases a version can carry, and the name of its lock."""

from typing import Literal

from rnnlm.config import RegistryConfig

Alias = Literal["champion", "challenger"]
LOCK = "_lock."  # no model of ours can be named so: RegistryConfig.model_name begins with a letter or digit


def registered_name(config: RegistryConfig, corpus_name: str) -> str:
    """One registered model a corpus: the configured name, else `rnnlm-<corpus name>`."""
    return config.model_name or f"rnnlm-{corpus_name}"


def lock_name(name: str) -> str:
    """The registered model that is the queue of those who change `name` on a server; see ticket_queue.py."""
    return LOCK + name


def is_lock(name: str) -> bool:
    return name.startswith(LOCK)
