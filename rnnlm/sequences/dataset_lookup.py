"""Datasets by their id or folder."""

from pathlib import Path

from rnnlm.errors import DatasetError
from rnnlm.home import Home, read_json
from rnnlm.records import DatasetRecord
from rnnlm.stages import find_damage


def find_dataset(home: Home, name: str) -> DatasetRecord | None:
    """A finished dataset, given as its id, the beginning of one (8 characters at least), or its folder.

    None if there is none, DatasetError if it is damaged.
    """
    beginnings = home.datasets.glob(f"{name}*") if len(name) >= 8 and name.isalnum() else []
    for folder in (Path(name).expanduser(), *beginnings):
        if not (folder / "dataset.json").exists():
            continue
        if damage := find_damage(folder):
            raise DatasetError(
                f"{folder}: the dataset is damaged: {damage}.\n"
                "Make it again: rnnlm prepare, with the corpus and the settings it was made with."
            )
        return record_of(folder)
    return None


def record_of(folder: Path) -> DatasetRecord:
    """The record of a finished dataset, as store_sequences gave it."""
    facts = read_json(folder / "dataset.json")
    return DatasetRecord(dataset_id=folder.name, folder=folder, **facts)
