"""Names in the registry: a corpus' registered model, and the two aliases of its versions."""

import contextlib
import sqlite3
from typing import Literal

from rnnlm.config import RegistryConfig
from rnnlm.home import Home

Alias = Literal["champion", "challenger"]


def registered_name(config: RegistryConfig, corpus_name: str) -> str:
    """The configured name, else `rnnlm-<corpus name>`: one registered model per corpus."""
    return config.model_name or f"rnnlm-{corpus_name}"


def local_model_names(home: Home) -> list[str]:
    """NAME and NAME@ALIAS of all models in the home's own database, for shell completion.

    Read without MLflow, whose import takes seconds. Empty if the registry is elsewhere.
    """
    names: list[str] = []
    database = home.root / "mlflow.db"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        names += (name for (name,) in connection.execute("select name from registered_models order by name"))
        rows = connection.execute("select name, alias from registered_model_aliases order by name, alias")
        names += (f"{name}@{alias}" for name, alias in rows)
    return names
