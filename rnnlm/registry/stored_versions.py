"""Reading and removing the versions, logged models and runs that rnnlm stores in MLflow.

Versions and runs of other programs in the same store are not listed, and therefore never removed.
"""

import logging
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

from rnnlm.registry.mlflow_database import delete_for_good
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.registry.registry_version import RegistryVersion, read_versions
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.home import Home, size_of
from rnnlm.storage.records import Record
from rnnlm.tracking.mlflow_store import all_pages, best_effort, ignoring, is_embedded, is_empty, reaching_mlflow

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

logger = logging.getLogger(__name__)
Key = tuple[str, str]  # The kind and name of an item.
MODEL_TYPE = "language model"
MISSING = "RESOURCE_DOES_NOT_EXIST"
# The tag of an MLflow run whose registered version was removed.
REMOVED = "rnnlm.removed_version"
OURS = ("rnnlm.run_id", "rnnlm.probe_key")  # Tags that only MLflow runs of rnnlm have.


class Item(Record):
    """A unit of data in an rnnlm home that is kept or removed as a whole; see rnnlm/extensions/upkeep/inventory.py."""

    kind: str  # The kind of the item, one of ITEM_KINDS in inventory.py.
    name: str
    bytes: int
    used: float  # The time of the last creation, change or use, in seconds since 1970.
    path: Path | None = None  # The item's file or folder, or None if it is not on this disk.
    needs: tuple[Key, ...] = ()
    finished: bool = True  # False for a training run that can be resumed.
    group: str = ""  # The corpus name of a dataset.

    @property
    def key(self) -> Key:
        return (self.kind, self.name)


class StoredModels(Record):
    versions: tuple[RegistryVersion, ...] = ()
    items: tuple[Item, ...] = ()  # The logged models (the files of versions) and the MLflow runs.
    # The ids of runs in home.runs whose version was registered and later removed.
    pruned_runs: frozenset[str] = frozenset()


def read_store(home: Home) -> StoredModels:
    """Return all versions, logged models and MLflow runs of rnnlm."""
    if is_empty(home):
        return StoredModels()
    with reaching_mlflow(home) as client:
        names = [model.name for model in all_pages(client.search_registered_models)]
        versions = [version for name in names for version in our_versions(client, name)]
        experiments = [found.experiment_id for found in client.search_experiments()]
        items = [
            stored_item(home, "model", model.model_id, model.artifact_location, model.last_updated_timestamp)
            for model in all_pages(partial(client.search_logged_models, experiments))
            if model.model_type == MODEL_TYPE
        ]
        runs = {
            run.info.run_id: run
            for tag in OURS
            for run in all_pages(partial(client.search_runs, experiments, f"tags.`{tag}` != ''"))
        }
    for name, run in runs.items():
        changed = run.info.end_time or run.info.start_time
        if run.info.status == "RUNNING":
            # A run with the status RUNNING counts as used now. `settle` ends the run if its process no longer exists.
            changed = time.time() * 1000
        items.append(stored_item(home, "mlflow-run", name, run.info.artifact_uri, changed))
    pruned = (run.data.tags.get("rnnlm.run_id", "") for run in runs.values() if REMOVED in run.data.tags)
    return StoredModels(versions=tuple(versions), items=tuple(items), pruned_runs=frozenset(pruned))


def stored_item(home: Home, kind: str, name: str, location: str, changed_ms: float) -> Item:
    folder = owned_folder(home, location)
    return Item(kind=kind, name=name, bytes=size_of(folder), used=changed_ms / 1000, path=folder)


def our_versions(client: "MlflowClient", name: str) -> list[RegistryVersion]:
    """Return the versions of a registered model that were registered by rnnlm."""
    return [version for version in read_versions(client, name) if "model_sha256" in version.facts]


def owned_folder(home: Home, location: str) -> Path | None:
    """Return the folder that MLflow created for a run or logged model, or None if it is not in this rnnlm home."""
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
    home: Home, name: str, still_removable: Callable[[list[RegistryVersion]], set[int]]
) -> list[RegistryVersion]:
    """Delete versions of a registered model, and return them. Their files are kept.

    `still_removable` receives the versions while the registry's lock is held, and returns the numbers of those to
    delete.
    """
    with reaching_mlflow(home) as client, registry_lock(home, name):
        versions = our_versions(client, name)
        chosen = still_removable(versions)
        removed = [version for version in versions if version.number in chosen and not version.aliases]
        for version in removed:
            # The tag is set before the version is deleted. If the process is killed in between, `rnnlm prune` still
            # knows that the run was registered, and can remove it.
            with ignoring(MISSING):
                client.set_tag(version.mlflow_run_id, REMOVED, f"{name}/{version.number}")
            client.delete_model_version(name, str(version.number))
    return removed


def remove_model(home: Home, model_id: str, folder: Path | None) -> None:
    """Delete a logged model with its files. An MLflow server keeps deleted models until `mlflow gc` is run there."""
    with reaching_mlflow(home) as client, ignoring(MISSING):
        if is_embedded(home):
            remove_files(folder)
            delete_for_good(home, "logged_model", model_id)
        else:
            client.delete_logged_model(model_id)


def remove_run(home: Home, mlflow_run_id: str, folder: Path | None) -> None:
    """Delete an MLflow run with its metrics and artifacts.

    An MLflow server keeps deleted runs until `mlflow gc` is run there.
    """
    with reaching_mlflow(home) as client, ignoring(MISSING):
        if is_embedded(home):
            remove_files(folder)
            delete_for_good(home, "run", mlflow_run_id)
        else:
            client.delete_run(mlflow_run_id)


def remove_files(folder: Path | None) -> None:
    """Remove the files of a logged model or run. As in `mlflow gc`, this precedes deleting the row of the database.

    If the process is killed in between, the row still refers to the remaining files.
    """
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def delete_unfinished_models(home: Home) -> int:
    """Delete the logged models of killed registrations, and return the number of deleted models.

    MLflow shows the status of these models as Pending.
    """
    if is_empty(home):
        return 0
    deleted = 0
    with best_effort("the end of killed registrations"), reaching_mlflow(home) as client:
        experiments = [found.experiment_id for found in client.search_experiments()]
        for name in sorted({str(model.name) for model in unfinished(client, experiments)}):
            with registry_lock(home, name):  # The lock excludes running registrations, whose models are also Pending.
                deleted += delete_unfinished(client, experiments, name)
    return deleted


def delete_unfinished(client: "MlflowClient", experiments: list[str], name: str) -> int:
    """Delete the Pending models named `name`. The caller must hold the registered model's lock."""
    found = [model for model in unfinished(client, experiments) if model.name == name]
    for model in found:
        client.delete_logged_model(str(model.model_id))
        logger.warning("%s: an earlier registration was killed, so its unfinished model was removed", name)
    return len(found)


def unfinished(client: "MlflowClient", experiments: list[str]) -> "list[LoggedModel]":
    """Return the logged models whose registration was killed or is still running.

    MLflow would show the models of killed registrations as Pending forever.
    """
    models = all_pages(partial(client.search_logged_models, experiments))
    return [model for model in models if model.model_type == MODEL_TYPE and str(model.status) == "PENDING"]
