"""The inventory of a home: everything that can be kept or removed, its size, when it was used, and what it needs."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from rnnlm.home import Home, read_json, size_of
from rnnlm.registry.stored_versions import StoredModels, StoredRun, StoredVersion, read_store
from rnnlm.storage.records import Record
from rnnlm.storage.stages import COMPLETE, read_stored_json
from rnnlm.training.history import STARTED, TRACKING

Derived = Literal["tokenizer", "shards", "scores", "ngram", "probe", "comparison", "reference", "fetched", "download"]
# In the order of their removal: what needs others goes before them, so a kill leaves nothing without what it needs.
Kind = Literal[
    "version",
    "model",  # files of a version, in artifacts/
    "run",
    "mlflow-run",
    "dataset",
    "description",
    "start",  # of warm starts: copies of models, and decisions which of them a dataset's training begins with
    "note",  # about the state of a source: corpora/known
    "corpus",
    Derived,  # can be made again
    "leftover",  # of a killed process
    "lock",
]
ITEM_KINDS: tuple[Kind, ...] = get_args(Kind)
Key = tuple[Kind, str]
FOLDERS: dict[str, Kind] = {  # below the home; each entry is one item
    "runs": "run",
    "datasets": "dataset",
    "descriptions": "description",
    "starts": "start",
    "corpora/known": "note",
    "corpora": "corpus",
    "tokenizers": "tokenizer",
    "shards": "shards",
    "scores": "scores",
    "ngrams": "ngram",
    "probes": "probe",
    "comparisons": "comparison",
    "references": "reference",
    "fetched": "fetched",
    "corpora/downloads": "download",
    "locks": "lock",
}
NOT_ITEMS = ("corpora/known", "corpora/downloads", "locks/flow-runs")


class Item(Record):
    kind: Kind
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


class Inventory(Record):
    items: dict[Key, Item]
    versions: tuple[StoredVersion, ...] = ()
    mlflow_runs: tuple[StoredRun, ...] = ()


def version_key(version: StoredVersion) -> Key:
    return ("version", f"{version.name}/{version.number}")


def take_inventory(home: Home) -> Inventory:
    """Read the registry first: what is registered later is newer than everything that is found to be removable."""
    store = read_store(home)
    items = {item.key: item for item in files_of(home)}
    items |= {item.key: item for item in stored_items(store, items)}
    return Inventory(items=items, versions=store.versions, mlflow_runs=store.runs)


def stored_items(store: StoredModels, files: dict[Key, Item]) -> Iterator[Item]:
    """The items that MLflow knows. A version is used when its run is: a stage that skips has just found it."""
    for version in store.versions:
        trained = files.get(("run", version.run_id))
        yield Item(
            kind="version",
            name=version_key(version)[1],
            bytes=0,
            used=max(version.created, trained.used if trained else 0.0),
            needs=lineage(version),
        )
    for model in store.models:
        yield Item(
            kind="model", name=model.model_id, bytes=size_of(model.folder), used=model.changed, path=model.folder
        )
    now = time.time()
    for run in store.runs:
        yield Item(
            kind="mlflow-run",
            name=run.mlflow_run_id,
            bytes=size_of(run.folder),
            used=now if run.running else run.changed,  # a running one is ended by `settle` if its process is gone
            path=run.folder,
        )


def lineage(version: StoredVersion) -> tuple[Key, ...]:
    """The items that a version needs to be loaded, shown, evaluated, explained, compared with, and rolled back to."""
    named: tuple[Key, ...] = (
        ("model", version.logged_model_id),
        ("mlflow-run", version.mlflow_run_id),
        ("run", version.run_id),
        ("dataset", version.dataset_id),
        ("corpus", version.corpus_digest[:16]),
    )
    return tuple(key for key in named if key[1])


def files_of(home: Home) -> Iterator[Item]:
    """The items that are files and folders of the home."""
    notes, decisions = notes_by_corpus(home), decisions_by_dataset(home)
    for folder, kind in FOLDERS.items():
        for path in entries(home.root / folder):
            place = f"{folder}/{path.name}"
            if place in NOT_ITEMS:
                continue
            if path.name.startswith("."):
                yield Item(kind="leftover", name=place, bytes=size_of(path), used=last_used(path), path=path)
                continue
            yield Item(
                kind=kind,
                name=path.name,
                bytes=size_of(path),
                used=last_used(path),
                path=path,
                needs=tuple(needs_of(kind, path, notes, decisions)),
                finished=kind != "run" or (path / COMPLETE).exists(),
                group=str((read_json(path / "dataset.json") or {}).get("corpus_name", "")) if kind == "dataset" else "",
            )


def needs_of(kind: Kind, path: Path, notes: dict[str, list[Key]], decisions: dict[str, list[Key]]) -> Iterator[Key]:
    if kind == "run":
        started = read_json(path / STARTED) or {}
        if dataset := started.get("dataset_id"):
            yield ("dataset", dataset)
        if "started_from" in started and not (path / COMPLETE).exists():
            yield ("start", started["started_from"]["model_sha256"][:16])
        if mlflow_run := (read_json(path / TRACKING) or {}).get("mlflow_run_id"):
            yield ("mlflow-run", mlflow_run)
    elif kind == "dataset":
        yield ("description", path.name)
        yield from decisions.get(path.name, [])
        if digest := (read_json(path / "dataset.json") or {}).get("corpus_digest"):
            yield ("corpus", digest[:16])
    elif kind == "start" and path.suffix == ".json":
        if start := (read_stored_json(path) or {}).get("start"):
            yield ("start", start["model_sha256"][:16])
    elif kind == "corpus":
        yield from notes.get(path.name, [])


def notes_by_corpus(home: Home) -> dict[str, list[Key]]:
    """Corpus → the notes that name it."""
    found: dict[str, list[Key]] = {}
    for path in entries(home.corpora / "known"):
        digest = (read_json(path) or {}).get("digest", "")
        found.setdefault(digest[:16], []).append(("note", path.name))
    return found


def decisions_by_dataset(home: Home) -> dict[str, list[Key]]:
    """Dataset → the decisions of rnnlm/registry/starting_model.py about it."""
    found: dict[str, list[Key]] = {}
    for path in entries(home.root / "starts"):
        if path.suffix == ".json":
            dataset = (read_stored_json(path) or {}).get("dataset_id", "")
            found.setdefault(dataset, []).append(("start", path.name))
    return found


def entries(folder: Path) -> list[Path]:
    """Sorted; none if the folder is missing."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def last_used(path: Path) -> float:
    """The newest modification time of a file or folder and its direct entries. stages.mark_used sets it."""
    times = []
    for place in (path, *entries(path)):
        try:
            times.append(place.stat().st_mtime)
        except FileNotFoundError:  # another process is writing here
            times.append(time.time())
    return max(times)
