"""List every item of an rnnlm home that can be kept or removed, with its size, its last use and the items it needs."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.stored_versions import Item, Key, read_store
from rnnlm.storage.home import PLACES, Home, read_json, size_of
from rnnlm.storage.json_results import read_stored_json
from rnnlm.storage.records import Record
from rnnlm.storage.stage_folders import DatasetFolder, RunFolder

DERIVED = ("tokenizer", "shards", "scores", "ngram", "probe", "comparison", "reference", "fetched", "download")
# The kinds of items in the order of their removal. An item is removed before the items that it needs, so that an
# interruption leaves no item without them.
ITEM_KINDS = (
    "version",
    "model",  # The files of a registered version, in artifacts/.
    "run",
    "mlflow-run",
    "dataset",
    "description",
    "start",  # Copies of models from which training starts, and the choice of such a model for each dataset.
    "note",
    "corpus",
    *DERIVED,  # Items that can be computed or downloaded again.
    "leftover",  # Files that a killed process has left.
    "lock",
)
NOT_ITEMS = ("corpora/known", "corpora/downloads", "locks/flow-runs")


class Inventory(Record):
    items: dict[Key, Item]
    versions: tuple[RegistryVersion, ...] = ()
    # The ids of runs whose registered version was removed; see StoredModels.pruned_runs.
    pruned_runs: frozenset[str] = frozenset()


def take_inventory(home: Home) -> Inventory:
    """List the items of an rnnlm home.

    The registry is read first. Hence items that are registered later are newer than all items that may be removed.
    """
    store = read_store(home)
    items = {item.key: item for item in (*files_of(home), *store.items)}
    for version in store.versions:
        trained = items.get(("run", version.facts.get("run_id", "")))
        # The last use of the run counts for the version, too, because a skipped stage marks only the run as used.
        used = max(version.created_ms / 1000, trained.used if trained else 0.0)
        kind, name = version_key(version)
        items[kind, name] = Item(kind=kind, name=name, bytes=0, used=used, needs=lineage(version))
    return Inventory(items=items, versions=store.versions, pruned_runs=store.pruned_runs)


def version_key(version: RegistryVersion) -> Key:
    return ("version", f"{version.name}/{version.number}")


def lineage(version: RegistryVersion) -> tuple[Key, ...]:
    """Return the items that a version needs to be loaded, shown, evaluated, explained, compared and rolled back to."""
    named = (
        ("model", version.facts.get("logged_model_id", "")),
        ("mlflow-run", version.mlflow_run_id),
        ("run", version.facts.get("run_id", "")),
        ("dataset", version.facts.get("dataset_id", "")),
        ("corpus", version.facts.get("corpus_digest", "")[:16]),
    )
    return tuple(key for key in named if key[1])


def files_of(home: Home) -> Iterator[Item]:
    """Yield the items that are files and folders of the rnnlm home."""
    notes, decisions = notes_by_corpus(home), decisions_by_dataset(home)
    # For each kind, a function that returns the items that an item of this kind needs. Other kinds need nothing.
    needs: dict[str, Callable[[Path], Iterable[Key]]] = {
        "run": needs_of_run,
        "dataset": lambda path: needs_of_dataset(path, decisions.get(path.name, [])),
        "start": needs_of_start,
        "corpus": lambda path: notes.get(path.name, []),
    }
    for place in PLACES:
        kind = place.kind
        for path in entries(home.root / place.name) if kind else ():
            name = f"{place.name}/{path.name}"
            if name in NOT_ITEMS:
                continue
            if path.name.startswith("."):
                yield Item(kind="leftover", name=name, bytes=size_of(path), used=last_used(path), path=path)
                continue
            yield Item(
                kind=kind,
                name=path.name,
                bytes=size_of(path),
                used=last_used(path),
                path=path,
                needs=tuple(needs[kind](path)) if kind in needs else (),
                finished=kind != "run" or RunFolder(path).finished,
                group=str(DatasetFolder(path).facts.get("corpus_name", "")) if kind == "dataset" else "",
            )


def needs_of_run(path: Path) -> Iterator[Key]:
    """Yield the run's dataset and MLflow run and, for an unfinished run, the model from which it started."""
    run = RunFolder(path)
    started = run.started
    if dataset := started.get("dataset_id"):
        yield ("dataset", dataset)
    if (digest := (started.get("started_from") or {}).get("model_sha256")) and not run.finished:
        yield ("start", digest[:16])
    if mlflow_run := run.tracking.get("mlflow_run_id"):
        yield ("mlflow-run", mlflow_run)


def needs_of_dataset(path: Path, decisions: list[Key]) -> Iterator[Key]:
    """Yield the dataset's description, the choices of initial models for it, and its corpus."""
    yield ("description", path.name)
    yield from decisions
    if digest := DatasetFolder(path).facts.get("corpus_digest"):
        yield ("corpus", digest[:16])


def needs_of_start(path: Path) -> Iterator[Key]:
    """Yield the copy of the model that a stored choice names."""
    if path.suffix == ".json" and (start := (read_stored_json(path) or {}).get("start")):
        yield ("start", start["model_sha256"][:16])


def notes_by_corpus(home: Home) -> dict[str, list[Key]]:
    """Return the keys of the notes about each corpus."""
    found: dict[str, list[Key]] = {}
    for path in entries(home.notes):
        digest = (read_json(path) or {}).get("digest", "")
        found.setdefault(digest[:16], []).append(("note", path.name))
    return found


def decisions_by_dataset(home: Home) -> dict[str, list[Key]]:
    """Return the keys of the choices of initial models for each dataset; see rnnlm/registry/starting_model.py."""
    found: dict[str, list[Key]] = {}
    for path in entries(home.starts):
        if path.suffix == ".json":
            dataset = (read_stored_json(path) or {}).get("dataset_id", "")
            found.setdefault(dataset, []).append(("start", path.name))
    return found


def entries(folder: Path) -> list[Path]:
    """Return the sorted entries of a folder, or none if the folder is missing."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def last_used(path: Path) -> float:
    """Return the newest modification time of a path and its direct entries. stages.mark_used updates this time."""
    times = []
    for place in (path, *entries(path)):
        try:
            times.append(place.stat().st_mtime)
        except FileNotFoundError:  # The file has disappeared, because another process writes to this folder.
            times.append(time.time())
    return max(times)
