"""Read and remove what MLflow stores for this program: versions, their logged models, and runs.

Versions and runs of other programs in the same store are not listed, and so never removed.
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
Key = tuple[str, str]  # of an item: kind, name
MODEL_TYPE = "language model"
MISSING = "RESOURCE_DOES_NOT_EXIST"
REMOVED = "rnnlm.removed_version"  # tag of a training's MLflow run: its version was registered, and removed since
OURS = ("rnnlm.run_id", "rnnlm.probe_key")  # tags that only this program's MLflow runs have


class Item(Record):
    """Something in a home that is kept or removed as a whole: see rnnlm/extensions/upkeep/inventory.py."""

    kind: str  # one of ITEM_KINDS there
    name: str
    bytes: int
    used: float  # seconds since 1970: when it was made, changed or last used
    path: Path | None = None  # None: not on this disk
    needs: tuple[Key, ...] = ()
    finished: bool = True  # False for a training run that can be resumed
    group: str = ""  # a dataset's corpus

    @property
    def key(self) -> Key:
        return (self.kind, self.name)


class StoredModels(Record):
    versions: tuple[RegistryVersion, ...] = ()
    items: tuple[Item, ...] = ()  # the logged models, which are the files of versions, and the MLflow runs
    pruned_runs: frozenset[str] = frozenset()  # in home.runs: trainings whose version was registered, and removed since


def read_store(home: Home) -> StoredModels:
    """Return all versions, logged models and MLflow runs of this program."""
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
            changed = time.time() * 1000  # `settle` ends a run whose process is gone
        items.append(stored_item(home, "mlflow-run", name, run.info.artifact_uri, changed))
    pruned = (run.data.tags.get("rnnlm.run_id", "") for run in runs.values() if REMOVED in run.data.tags)
    return StoredModels(versions=tuple(versions), items=tuple(items), pruned_runs=frozenset(pruned))


def stored_item(home: Home, kind: str, name: str, location: str, changed_ms: float) -> Item:
    folder = owned_folder(home, location)
    return Item(kind=kind, name=name, bytes=size_of(folder), used=changed_ms / 1000, path=folder)


def our_versions(client: "MlflowClient", name: str) -> list[RegistryVersion]:
    """Return this program's versions of one registered model."""
    return [version for version in read_versions(client, name) if "model_sha256" in version.facts]


def owned_folder(home: Home, location: str) -> Path | None:
    """Return the folder that MLflow made for one run or logged model, or None if it is not in this home."""
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
    """Delete versions of one registered model; their files stay. Returns those that were deleted.

    still_removable: given the versions under the registry's lock, the numbers of those to delete.
    """
    with reaching_mlflow(home) as client, registry_lock(home, name):
        versions = our_versions(client, name)
        chosen = still_removable(versions)
        removed = [version for version in versions if version.number in chosen and not version.aliases]
        for version in removed:
            # The tag first: after a kill it says that this run was registered, so `rnnlm prune` does not keep it.
            with ignoring(MISSING):
                client.set_tag(version.mlflow_run_id, REMOVED, f"{name}/{version.number}")
            client.delete_model_version(name, str(version.number))
    return removed


def remove_model(home: Home, model_id: str, folder: Path | None) -> None:
    """Delete a logged model with its files. A server keeps what it deleted until its `mlflow gc`."""
    with reaching_mlflow(home) as client, ignoring(MISSING):
        if is_embedded(home):
            remove_files(folder)
            delete_for_good(home, "logged_model", model_id)
        else:
            client.delete_logged_model(model_id)


def remove_run(home: Home, mlflow_run_id: str, folder: Path | None) -> None:
    """Delete an MLflow run with its metrics and artifacts. A server keeps them until its `mlflow gc`."""
    with reaching_mlflow(home) as client, ignoring(MISSING):
        if is_embedded(home):
            remove_files(folder)
            delete_for_good(home, "run", mlflow_run_id)
        else:
            client.delete_run(mlflow_run_id)


def remove_files(folder: Path | None) -> None:
    """Call it before the row is deleted, as `mlflow gc` does: after a kill the row still leads to the other files."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def delete_unfinished_models(home: Home) -> int:
    """Delete the Pending models that no process is registering now. Returns how many."""
    if is_empty(home):
        return 0
    deleted = 0
    with best_effort("the end of killed registrations"), reaching_mlflow(home) as client:
        experiments = [found.experiment_id for found in client.search_experiments()]
        for name in sorted({str(model.name) for model in unfinished(client, experiments)}):
            with registry_lock(home, name):  # a registration holds it while its model is Pending
                deleted += delete_unfinished(client, experiments, name)
    return deleted


def delete_unfinished(client: "MlflowClient", experiments: list[str], name: str) -> int:
    """Delete the Pending models of this name. Call it under the registered model's lock."""
    found = [model for model in unfinished(client, experiments) if model.name == name]
    for model in found:
        client.delete_logged_model(str(model.model_id))
        logger.warning("%s: a registration was killed; its unfinished model was removed", name)
    return len(found)


def unfinished(client: "MlflowClient", experiments: list[str]) -> "list[LoggedModel]":
    """Return the models whose registration was killed, or is running: MLflow would show them as Pending for ever."""
    models = all_pages(partial(client.search_logged_models, experiments))
    return [model for model in models if model.model_type == MODEL_TYPE and str(model.status) == "PENDING"]
