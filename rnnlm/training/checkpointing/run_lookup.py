"""Functions that find a run to resume by its id, the beginning of its id, or its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rnnlm.config import PipelineConfig, changeable_settings
from rnnlm.config.moved_settings import flatten, nest
from rnnlm.config.validation import validated
from rnnlm.errors import ConfigError, ModelError
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, expanded
from rnnlm.storage.records import DatasetRecord, StartedFrom
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.training.training_run import find_run_damage, name_run


def find_unfinished(
    home: Home, name: str, changes: Mapping[str, Any] | None = None
) -> tuple[PipelineConfig, DatasetRecord]:
    """Return the configuration and the dataset of an unfinished run. The configuration's `force` is empty.

    `changes` contains new values by dotted path for settings that determine on which machines and devices the run is
    computed. Raise ConfigError if another setting is changed. Raise ModelError if no run or several runs match, if the
    run is complete, or if it cannot be resumed with exactly the same result.
    """
    changes = changes or {}
    refuse_other_changes(changes)
    folder = find_run(home, name)
    if find_run_damage(home, folder) is None:
        raise ModelError(
            f"{folder.name}: this run is complete;\n"
            f"use it (rnnlm generate {folder.name}), or train it again (rnnlm train --force training, same settings)"
        )
    started, configuration = RunFolder(folder).started, RunFolder(folder).configuration
    if "members" in started:
        raise ModelError(
            f"{folder.name}: an ensemble is not trained and cannot be resumed; "
            f"mix it again: rnnlm mix {' '.join(started['members'])}"
        )
    if "dataset_id" not in started or not configuration:
        raise ModelError(f"{folder}: started.json or config.json is damaged;\ntrain a new run: rnnlm train --corpus …")
    try:
        config = PipelineConfig.model_validate(configuration).model_copy(update={"force": ()})
    except ValidationError as error:
        raise ModelError(
            f"{folder / 'config.json'}: this version of rnnlm cannot read it ({error.error_count()} errors);\n"
            "train a new run: rnnlm train --corpus …"
        ) from error
    dataset = find_dataset(home, str(inside(home.datasets, started["dataset_id"])))
    if dataset is None:
        raise ModelError(
            f"{folder.name}: the dataset {started['dataset_id'][:12]} of this run is missing or damaged;\n"
            "prepare it again with the settings in the run's config.json: "
            f"rnnlm prepare --corpus {config.corpus.public_source}"
        )
    start = StartedFrom(**started["started_from"]) if "started_from" in started else None
    if name_run(config, dataset, start) != started["run_id"]:
        raise ModelError(
            f"{folder.name}: this run was started with other versions of rnnlm, torch, transformers or numpy, so it\n"
            f"cannot be resumed; install those versions, or train a new run: "
            f"rnnlm train --corpus {config.corpus.public_source}"
        )
    return (with_changes(config, changes) if changes else config), dataset


def refuse_other_changes(changes: Mapping[str, Any]) -> None:
    changeable = changeable_settings()
    if others := [path for path in changes if path not in changeable]:
        taken = f"--set takes {', '.join(changeable)};\n" if changeable else ""
        raise ConfigError(
            f"--resume continues with the run's own configuration: {others[0]} cannot change;\n"
            f"{taken}leave out --resume to train another run"
        )


def with_changes(config: PipelineConfig, changes: Mapping[str, Any]) -> PipelineConfig:
    """Return a run's configuration with changed settings that do not affect its result. The run keeps its id."""
    values = flatten(config.model_dump(mode="json"))
    for path, section in config.sections():
        own = {name: changes[f"{path}.{name}"] for name in section.changeable if f"{path}.{name}" in changes}
        if own:
            values |= {f"{path}.{name}": value for name, value in section.changed(own).items()}
    return validated(PipelineConfig, nest(values))


def find_run(home: Home, name: str) -> Path:
    """Return the folder of a run that has started, given by its id, the beginning of its id, or its folder."""
    places = [expanded(name), *(home.runs.glob(f"{name}*") if name.isalnum() else ())]
    started = dict.fromkeys(place.resolve() for place in places if RunFolder(place).started_path.is_file())
    found = [place for place in started if place.parent == home.runs.resolve()]
    if len(found) > 1:
        raise ModelError(
            f"{name}: the ids of {len(found)} runs begin with this text; give more of the id: "
            f"{', '.join(sorted(place.name for place in found))}"
        )
    if not found:
        all_runs = (run.path for run in RunFolder.all(home))
        unfinished = sorted(run.name for run in all_runs if find_run_damage(home, run) is not None)
        known = f"unfinished: {', '.join(unfinished[:8])}" if unfinished else "no run is unfinished"
        raise ModelError(f"{name}: no such run in {home.runs};\n{known}; all runs: rnnlm runs")
    return found[0]
