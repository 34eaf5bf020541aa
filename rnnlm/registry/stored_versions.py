"""Read and remove what MLflow stores for this program: versions, their logged models and training runs.

Versions and runs of other programs in the same store are not listed, so nobody removes them.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

from rnnlm.home import Home
from rnnlm.registry.champion_history import Change, read_history
from rnnlm.registry.registration import evidence_of
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.registry.tag_names import facts_of
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.records import Record
from rnnlm.tracking.mlflow_store import all_pages, embedded_uri, ignoring, is_embedded, is_empty, reaching_mlflow

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

MISSING = "RESOURCE_DOES_NOT_EXIST"
REMOVED = "rnnlm.removed_version"  # tag of a training's MLflow run: its version was registered, and removed since
OURS = ("rnnlm.run_id", "rnnlm.probe_key")  # tags that only this program's MLflow runs have
WASTED_SHARE = 0.25  # of the database's pages, from which on it is compacted


class StoredVersion(Record):
    name: str
    number: int
    aliases: tuple[str, ...]
    created: float  # seconds since 1970, like all times here
    mlflow_run_id: str
    logged_model_id: str
    run_id: str
    dataset_id: str
    corpus_digest: str
    parent: int | None  # the champion that it was compared with
    comparison: int | None  # the number of that comparison; None: there was no evidence
    changes: tuple[Change, ...]  # each time that it became champion


class StoredModel(Record):
    """A logged model: the files of a version."""

    model_id: str
    folder: Path | None  # None: not on this machine
    changed: float


class StoredRun(Record):
    mlflow_run_id: str
    run_id: str  # the training's folder in home.runs; "" for a probe
    folder: Path | None
    changed: float
    running: bool
    removed_version: bool


class StoredModels(Record):
    versions: tuple[StoredVersion, ...] = ()
    models: tuple[StoredModel, ...] = ()
    runs: tuple[StoredRun, ...] = ()


def read_store(home: Home) -> StoredModels:
    """All versions, logged models and MLflow runs of this program."""
    if is_empty(home):
        return StoredModels()
    with reaching_mlflow(home) as client:
        names = [model.name for model in all_pages(client.search_registered_models)]
        versions = [version for name in names for version in read_versions(client, name)]
        experiments = [found.experiment_id for found in client.search_experiments()]
        models = [
            StoredModel(
                model_id=model.model_id,
                folder=owned_folder(home, model.artifact_location),
                changed=model.last_updated_timestamp / 1000,
            )
            for model in all_pages(partial(client.search_logged_models, experiments))
            if model.model_type == "language model"
        ]
        runs = {
            run.info.run_id: StoredRun(
                mlflow_run_id=run.info.run_id,
                run_id=run.data.tags.get("rnnlm.run_id", ""),
                folder=owned_folder(home, run.info.artifact_uri),
                changed=(run.info.end_time or run.info.start_time) / 1000,
                running=run.info.status == "RUNNING",
                removed_version=REMOVED in run.data.tags,
            )
            for tag in OURS
            for run in all_pages(partial(client.search_runs, experiments, f"tags.`{tag}` != ''"))
        }
    return StoredModels(versions=tuple(versions), models=tuple(models), runs=tuple(runs.values()))


def read_versions(client: "MlflowClient", name: str) -> list[StoredVersion]:
    """This program's versions of one registered model."""
    held = client.get_registered_model(name).aliases
    found = all_pages(partial(client.search_model_versions, f"name = '{name}'"))
    return [stored_version(version, held) for version in found if "model_sha256" in facts_of(version)]


def stored_version(version: "ModelVersion", held: dict[str, str]) -> StoredVersion:
    tags, evidence = facts_of(version), evidence_of(version)
    return StoredVersion(
        name=version.name,
        number=int(version.version),
        aliases=tuple(sorted(alias for alias, number in held.items() if int(number) == int(version.version))),
        created=version.creation_timestamp / 1000,
        mlflow_run_id=version.run_id or "",
        logged_model_id=tags.get("logged_model_id", ""),
        run_id=tags.get("run_id", ""),
        dataset_id=tags.get("dataset_id", ""),
        corpus_digest=tags.get("corpus_digest", ""),
        parent=int(tags["parent_version"]) if "parent_version" in tags else None,
        comparison=evidence.comparison if evidence else None,
        changes=tuple(read_history([version])),
    )


def owned_folder(home: Home, location: str) -> Path | None:
    """The folder that MLflow made for one run or logged model; None if it is not in this home."""
    url = urlparse(location)
    if url.scheme not in ("", "file"):
        return None
    path = Path(url2pathname(url.path))
    if path.name != "artifacts" or not path.is_relative_to(home.artifacts):
        return None
    with suppress(UnsafeNameError):
        return inside(home.artifacts, path.parent.relative_to(home.artifacts).as_posix(), any_links=True)
    return None


def remove_versions(
    home: Home, name: str, still_removable: Callable[[list[StoredVersion]], set[int]]
) -> list[StoredVersion]:
    """Delete versions of one registered model; their files stay. Returns those that were deleted.

    still_removable: given the versions under the registry's lock, the numbers of those to delete.
    """
    with reaching_mlflow(home) as client, registry_lock(home, name):
        versions = read_versions(client, name)
        chosen = still_removable(versions)
        removed = [version for version in versions if version.number in chosen and not version.aliases]
        for version in removed:
            # The tag first: after a kill it tells that this run was registered, so that it is not kept as unregistered.
            with ignoring(MISSING):
                client.set_tag(version.mlflow_run_id, REMOVED, f"{name}/{version.number}")
            client.delete_model_version(name, str(version.number))
    return removed


def remove_model(home: Home, model_id: str, folder: Path | None) -> None:
    """Delete a logged model with its files. A server keeps what it deleted until its `mlflow gc`."""
    remove(home, folder, lambda client: client.delete_logged_model(model_id), "_hard_delete_logged_model", model_id)


def remove_run(home: Home, mlflow_run_id: str, folder: Path | None) -> None:
    """Delete an MLflow run with its metrics and artifacts. A server keeps them until its `mlflow gc`."""
    remove(home, folder, lambda client: client.delete_run(mlflow_run_id), "_hard_delete_run", mlflow_run_id)


def remove(
    home: Home, folder: Path | None, delete: Callable[["MlflowClient"], None], hard_delete: str, identity: str
) -> None:
    with reaching_mlflow(home) as client, ignoring(MISSING):
        if not is_embedded(home):
            delete(client)
            return
        # Files before the row, as `mlflow gc` does: after a kill the row still leads to the rest of the files.
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        getattr(store_of(home), hard_delete)(identity)


def store_of(home: Home):  # type: ignore[no-untyped-def]  # MLflow's class is untyped
    """MLflow's own store: only it can delete for good."""
    from mlflow.tracking._tracking_service.utils import _get_store

    return _get_store(embedded_uri(home), home.artifacts.as_uri())


def compact_database(home: Home) -> None:
    """Drop what MLflow leaves of deleted versions, and give free pages back to the disk if they are many."""
    if not is_embedded(home) or is_empty(home):
        return
    with closing(sqlite3.connect(home.mlflow_database, timeout=30.0)) as connection:
        # MLflow empties the row of a deleted version, which keeps its number from being given again, but not its tags.
        with connection:
            connection.execute(
                "delete from model_version_tags where exists (select 1 from model_versions version "
                "where version.name = model_version_tags.name and version.version = model_version_tags.version "
                "and version.current_stage = 'Deleted_Internal')"
            )
        (pages,) = connection.execute("pragma page_count").fetchone()
        (free,) = connection.execute("pragma freelist_count").fetchone()
        if free > WASTED_SHARE * pages:
            with suppress(sqlite3.OperationalError):  # busy: next time
                connection.execute("vacuum")
                connection.execute("pragma wal_checkpoint(truncate)")
