"""Functions that find a dataset by its id or folder."""

from rnnlm.errors import DatasetError
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, expanded
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.stage_folders import DatasetFolder
from rnnlm.storage.stages import find_new_damage, mark_used


def dataset_of_run(home: Home, run: RunRecord) -> DatasetRecord:
    """Return the dataset on which a run was trained. Raise DatasetError if it no longer exists."""
    dataset = find_dataset(home, str(inside(home.datasets, run.dataset_id)))
    if dataset is None:
        raise DatasetError(
            f"{home.datasets}: the dataset {run.dataset_id} of run {run.run_id} is missing;\n"
            "`rnnlm run` with the run's settings makes it again"
        )
    return dataset


def find_dataset(home: Home, name: str) -> DatasetRecord | None:
    """Return a complete dataset, given its id, at least 8 characters of its id, or its folder.

    Return None if it does not exist. Raise DatasetError if it is damaged.
    """
    beginnings = home.datasets.glob(f"{name}*") if len(name) >= 8 and name.isalnum() else []
    for folder in (expanded(name), *beginnings):
        if not DatasetFolder(folder).exists:
            continue
        mark_used(folder)
        if damage := find_new_damage(home, folder):
            raise DatasetError(
                f"{folder}: the dataset is damaged: {damage}.\nRun rnnlm prepare again with its corpus and settings."
            )
        return DatasetFolder(folder).record()
    return None
