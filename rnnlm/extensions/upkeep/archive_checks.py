"""Check the contents of a backup before anything is written, because an archive may come from an untrusted source.

A manifest with valid digests does not prove that rnnlm created the archive.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rnnlm.errors import HomeError
from rnnlm.extensions.upkeep.backup_archive import FORMAT, Manifest
from rnnlm.storage.contained_paths import problem_of
from rnnlm.tracking.stored_locations import LOCATIONS

MLFLOW_DATABASE, PREFECT_DATABASE = "mlflow.db", "prefect/prefect.db"
# The folders of an rnnlm home that backup.py includes.
FOLDERS = ("artifacts", "corpora", "datasets", "descriptions", "runs", "starts")
LONGEST_PATH_BYTES = 4_095  # The largest length of a path on Linux, in bytes.
HEADER_BYTES = 512  # The size of the header that tar writes before each file.
DIGEST = re.compile("[0-9a-f]{64}")
MLFLOW_TRIGGER = re.compile(  # A pattern for the only trigger that MLflow creates.
    r"create trigger prevent_secrets_aad_mutation before update on secrets for each row when [\w.!= ]+ "
    r"begin select raise\(abort, '[\w ()=]+'\); end;?"
)
PREFECT_TABLES = ("flow", "flow_run", "deployment")
# The timeout of a check in seconds, because a malicious schema can make checks arbitrarily slow.
DATABASE_SECONDS = 600


def check_manifest(manifest: Manifest, archive: Path, length: int) -> None:
    """Raise HomeError if backup.py cannot have written the manifest. `length` is the archive's size in bytes."""
    problem = problem_of_manifest(manifest, length)
    if problem is not None:
        raise HomeError(
            f"{archive}: not a backup of this version of rnnlm: {problem}.\n"
            "Nothing was written. Use the version of rnnlm that made the backup, or restore another backup."
        )


def problem_of_manifest(manifest: Manifest, length: int) -> str | None:
    if manifest.format != FORMAT:
        return f"it has format {manifest.format}, expected {FORMAT}"
    if not manifest.homes or not all(
        home.is_absolute() and problem_of(str(home)[1:]) is None for home in manifest.homes
    ):
        return "its manifest does not name the home"
    texts = (manifest.made, manifest.rnnlm, *manifest.versions, *manifest.damaged)
    if not all(text.isprintable() for text in texts):
        return "its manifest contains control characters"
    end = 0
    for name, file in sorted(manifest.files.items(), key=lambda entry: (entry[1].offset, entry[1].bytes)):
        if (problem := problem_of_name(name, manifest)) is not None:
            return f"{ascii(name)[:80]} is not restored: {problem}"
        if not DIGEST.fullmatch(file.sha256) or file.bytes < 0:
            return f"{ascii(name)[:80]} has no sha256 or no size"
        if file.offset < end + HEADER_BYTES or file.offset + file.bytes > length:
            return f"{ascii(name)[:80]} lies outside the archive or overlaps another file"
        end = file.offset + file.bytes
    return None


def problem_of_name(name: str, manifest: Manifest) -> str | None:
    """Return the reason why backup.py would not write a file of this name, or None."""
    if (problem := problem_of(name)) is not None:
        return problem
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        return "backups contain no hidden files"
    is_known = name in (MLFLOW_DATABASE, PREFECT_DATABASE) or (parts[0] in FOLDERS and len(parts) > 1)
    if not is_known or name.startswith("corpora/downloads/"):
        return "backups contain no such file"
    if len(os.fsencode(name)) > LONGEST_PATH_BYTES // 2:
        return "its name is too long"
    if any("/".join(parts[:depth]) in manifest.files for depth in range(1, len(parts))):
        return "another file has the name of its folder"
    return None


def check_database(database: Path, name: str) -> None:
    """Raise HomeError if a file is not a database of MLflow or Prefect, or has triggers that run code on writing.

    `database` is an unpacked copy of the file, and `name` is the file's name in the archive.
    """
    with explained(name), closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        bound_work(connection)
        for kind, own, sql in connection.execute("select type, name, sql from sqlite_master"):
            text = " ".join(str(sql or "").split()).lower()
            is_ours = name == MLFLOW_DATABASE and kind == "trigger" and MLFLOW_TRIGGER.fullmatch(text)
            if kind not in ("table", "index") and not is_ours:
                raise HomeError(f"{name}: has the {kind} {ascii(own)[:60]}, which may run code")
            if text.startswith("create virtual"):
                raise HomeError(f"{name}: has the virtual table {ascii(own)[:60]}")
        if name == MLFLOW_DATABASE:
            for table, column in LOCATIONS:
                connection.execute(f"select {column} from {table} limit 0").fetchall()
        else:
            for table in PREFECT_TABLES:
                connection.execute(f"select id from {table} limit 0").fetchall()
        (found,) = connection.execute("pragma quick_check(1)").fetchone()
        if found != "ok" and "malformed" in str(found):
            raise HomeError(f"{name}: {ascii(found)[:80]}")


@contextmanager
def explained(name: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise HomeError(
            f"{name} in this backup is not a database of {'MLflow' if name == MLFLOW_DATABASE else 'Prefect'} "
            f"({error}).\n"
            "Nothing was written. Restore another backup."
        ) from error


def bound_work(connection: sqlite3.Connection) -> None:
    """Interrupt statements after DATABASE_SECONDS, and limit values to 256 MB."""
    end = time.monotonic() + DATABASE_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, 100_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 28)
