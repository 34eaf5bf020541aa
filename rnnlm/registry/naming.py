"""The name a corpus' models are registered under, and the two aliases a version can carry."""

from typing import Literal

from rnnlm.config import RegistryConfig

Alias = Literal["champion", "challenger"]


def registered_name(config: RegistryConfig, corpus_name: str) -> str:
    """One registered model a corpus: the configured name, else `rnnlm-<corpus name>`."""
    return config.model_name or f"rnnlm-{corpus_name}"
