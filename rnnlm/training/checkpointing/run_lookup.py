"""Find an unfinished run by id, id prefix or folder, and what is needed to resume it."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.home import Home, read_json
from rnnlm.records import DatasetRecord, StartedFrom
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.training.training_run import STARTED, find_run_damage, name_run


def find_unfinished(home: Home, name: str) -> tuple[PipelineConfig, DatasetRecord]:
    """The configuration of the run, with nothing to force, and its dataset.

    ModelError if no run or several match, or if the run is complete or cannot be resumed exactly.
    """
    folder = find_run(home, name)
    if find_run_damage(folder) is None:
        raise ModelError(
            f"{folder.name}: this run is complete;\n"
            f"use it (rnnlm generate {folder.name}), or train it anew (rnnlm train --force training, as it was trained)"
        )
    started: dict[str, Any] = read_json(folder / STARTED)
    try:
        config = PipelineConfig.model_validate(read_json(folder / "config.json")).model_copy(update={"force": ()})
    except ValidationError as error:
        raise ModelError(
            f"{folder / 'config.json'}: not a configuration of this version of rnnlm ({error.error_count()} errors);\n"
            "train anew: rnnlm train --corpus …"
        ) from error
    dataset = find_dataset(home, started["dataset_id"])
    if dataset is None:
        raise ModelError(
            f"{folder.name}: its dataset {started['dataset_id'][:12]} is missing or damaged;\n"
            f"prepare it again: rnnlm prepare --corpus {config.corpus.public_source} (see its config.json)"
        )
    start = StartedFrom(**started["started_from"]) if "started_from" in started else None
    if name_run(config, dataset, start) != started["run_id"]:
        raise ModelError(
            f"{folder.name}: started with other versions of rnnlm, torch, transformers or numpy and cannot be resumed\n"
            f"exactly; install those, or train anew: rnnlm train --corpus {config.corpus.public_source}"
        )
    return config, dataset


def find_run(home: Home, name: str) -> Path:
    """The folder of a run that was started."""
    places = [Path(name).expanduser(), *(home.runs.glob(f"{name}*") if name.isalnum() else ())]
    found = list(dict.fromkeys(place.resolve() for place in places if (place / STARTED).is_file()))
    if len(found) > 1:
        raise ModelError(f"{name}: matches {len(found)} runs: {', '.join(sorted(place.name for place in found))}")
    if not found:
        started = (path.parent for path in home.runs.glob(f"*/{STARTED}"))
        unfinished = sorted(run.name for run in started if find_run_damage(run) is not None)
        known = f"unfinished: {', '.join(unfinished[:8])}" if unfinished else "no run is unfinished"
        raise ModelError(f"{name}: no such run in {home.runs};\n{known}; rnnlm runs lists all")
    return found[0]
