"""Names in the registry: a corpus' registered model, the two aliases of its versions, and its lock."""

import contextlib
import sqlite3
from typing import Literal

from rnnlm.config import RegistryConfig
from rnnlm.home import Home

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
    return [name for name in names if not is_lock(name)]
