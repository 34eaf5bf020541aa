"""Datasets by their id or folder."""

from pathlib import Path

from rnnlm.home import Home, is_complete, read_json
from rnnlm.records import DatasetRecord


def find_dataset(home: Home, name: str) -> DatasetRecord | None:
    """A finished dataset, given as its id, the beginning of one (8 characters at least), or its folder."""
    beginnings = home.datasets.glob(f"{name}*") if len(name) >= 8 and name.isalnum() else []
    for folder in (Path(name).expanduser(), *beginnings):
        if (folder / "dataset.json").exists() and is_complete(folder):
            return record_of(folder)
    return None


def record_of(folder: Path) -> DatasetRecord:
    """The record of a finished dataset, as store_sequences gave it."""
    facts = read_json(folder / "dataset.json")
    return DatasetRecord(dataset_id=folder.name, folder=folder, **facts)
