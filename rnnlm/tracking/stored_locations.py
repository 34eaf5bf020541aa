"""The absolute paths in MLflow's database.

They are rewritten if an rnnlm home was moved, because MLflow stores no relative paths.
"""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

logger = logging.getLogger(__name__)
LOCATIONS = (  # The columns of MLflow's database that contain a path, a file: URI, or JSON with such a value.
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("datasets", "dataset_source"),
    ("workspaces", "default_artifact_root"),
)


def mend_locations(database: Path, root: Path) -> None:
    """Rewrite the database's paths to `root`, the current location of the rnnlm home, if it was moved."""
    before = stored_root(database)
    if before is None or before == root or (before.exists() and before.samefile(root)):
        return
    move_locations(database, before, root)
    logger.warning("this home was at %s before; the paths that MLflow stores now lead to %s", before, root)


def stored_root(database: Path) -> Path | None:
    """Return the root of the rnnlm home in which the database was created, according to MLflow's experiment 0.

    Return None if another program created the database.
    """
    with closing(sqlite3.connect(database)) as connection:
        row = connection.execute("select artifact_location from experiments where experiment_id = 0").fetchone()
    location = urlsplit(row[0]) if row else urlsplit("")
    path = Path(unquote(location.path))
    return path.parents[1] if location.scheme == "file" and path.parts[-2:] == ("artifacts", "0") else None


def move_locations(database: Path, old: Path, new: Path) -> None:
    """Rewrite MLflow's paths that begin with the old root of the rnnlm home."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, column in LOCATIONS:
            for before, after in ((old.as_uri(), new.as_uri()), (str(old), str(new))):
                connection.execute(
                    f"update {table} set {column} = replace({column}, :before, :after) "
                    f"where substr({column}, 1, length(:before)) = :before or instr({column}, '\"' || :before)",
                    {"before": f"{before}/", "after": f"{after}/"},
                )
