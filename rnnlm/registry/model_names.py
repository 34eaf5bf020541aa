"""Names in the registry: a corpus' registered model, the two aliases of its versions, and its lock."""

from typing import Literal

from rnnlm.config import RegistryConfig

Alias = Literal["champion", "challenger"]
LOCK = "_lock."  # no model can have this prefix: RegistryConfig.model_name begins with a letter or digit


def registered_name(config: RegistryConfig, corpus_name: str) -> str:
    """The configured name, else `rnnlm-<corpus name>`: one registered model per corpus."""
    return config.model_name or f"rnnlm-{corpus_name}"


def lock_name(name: str) -> str:
    """The registered model that is the lock on `name` on a server; see ticket_queue.py."""
    return LOCK + name


def is_lock(name: str) -> bool:
    return name.startswith(LOCK)
