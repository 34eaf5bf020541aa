"""Direct access to MLflow's database in the rnnlm home, for tasks that MLflow's client cannot do or does slowly.

The tables and the two private methods `_hard_delete_*` are as in MLflow 3.17.2. Paths in the same tables are rewritten
by rnnlm/tracking/stored_locations.py.
"""

import contextlib
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Literal

from rnnlm.registry.registry_version import RegistryVersion, facts_of
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import embedded_uri

WASTED_SHARE = 0.25  # The fraction of unused pages above which the database is compacted.


def open_read_only(database: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True))


def local_model_names(home: Home) -> list[str]:
    """Return NAME and NAME@ALIAS of all registered models, for shell completion.

    The list is empty if the rnnlm home has no registry.
    """
    names: list[str] = []
    with contextlib.suppress(sqlite3.Error), open_read_only(home.mlflow_database) as connection:
        names += (name for (name,) in connection.execute("select name from registered_models order by name"))
        rows = connection.execute("select name, alias from registered_model_aliases order by name, alias")
        names += (f"{name}@{alias}" for name, alias in rows)
    return names


def champions_in_file(database: Path) -> dict[str, tuple[int, list[RegistryVersion]]]:
    """Return the champion's number and all versions, with their metadata and times, for each registered model."""
    tags: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    with open_read_only(database) as connection:
        aliases = connection.execute(
            "select name, version from registered_model_aliases where alias = 'champion' order by name"
        ).fetchall()
        for name, version, key, value in connection.execute("select name, version, key, value from model_version_tags"):
            tags[name, version][key] = value
        versions = connection.execute(
            "select name, version, creation_time from model_versions where current_stage <> 'Deleted_Internal'"
        ).fetchall()
    return {
        model: (
            champion,
            [
                RegistryVersion(name=name, number=number, facts=facts_of(tags[name, number]), created_ms=when)
                for name, number, when in versions
                if name == model
            ],
        )
        for model, champion in aliases
    }


def delete_for_good(home: Home, kind: Literal["logged_model", "run"], identity: str) -> None:
    """Delete a logged model or run from the database, with all rows that refer to it.

    MLflow's client would only mark it as deleted.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(embedded_uri(home), home.artifacts.as_uri())
    getattr(store, f"_hard_delete_{kind}")(identity)


def compact_database(home: Home) -> None:
    """Delete the tags of deleted versions. If many pages of the database are unused, return them to the disk."""
    with contextlib.closing(sqlite3.connect(home.mlflow_database, timeout=30.0)) as connection:
        # Delete the tags of deleted versions, which MLflow keeps with an empty row that reserves the number.
        with connection:
            connection.execute(
                "delete from model_version_tags where exists (select 1 from model_versions version "
                "where version.name = model_version_tags.name and version.version = model_version_tags.version "
                "and version.current_stage = 'Deleted_Internal')"
            )
        (pages,) = connection.execute("pragma page_count").fetchone()
        (free,) = connection.execute("pragma freelist_count").fetchone()
        if free > WASTED_SHARE * pages:
            # A busy database is compacted at the next call.
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("vacuum")
                connection.execute("pragma wal_checkpoint(truncate)")
