"""Probe newly initialized networks of each kind. Each result is stored once in home.probes, as JSON with a plot."""

import logging
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from rnnlm.config import TrainingConfig, result_settings
from rnnlm.extensions.probes.abilities import measure_ability, network_names
from rnnlm.extensions.probes.echo import measure_echo
from rnnlm.extensions.probes.gradients import measure_gradients
from rnnlm.extensions.probes.probe_config import AbilitiesConfig, EchoConfig, GradientProbeConfig, SyntheticTaskName
from rnnlm.extensions.probes.probe_plots import draw_abilities, draw_echo, draw_gradient_comparison
from rnnlm.extensions.probes.probe_records import AbilityComparison, AbilityScore, EchoComparison, GradientComparison
from rnnlm.extensions.probes.run_probes import measure_once
from rnnlm.runtime.engines import OpenEngine, in_this_process, results_in_order
from rnnlm.storage.home import Home, atomic_file
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import stage, stage_key

logger = logging.getLogger(__name__)


@stage("probe gradients")
def compare_gradients(
    home: Home, dataset: DatasetRecord, training: TrainingConfig, config: GradientProbeConfig, *, force: bool = False
) -> GradientComparison:
    """Compare gradients in networks of each kind on a dataset by measure_gradients(), unless the result is stored."""
    text = {"corpus": dataset.corpus_name, "dataset_id": dataset.dataset_id, "mode": dataset.mode}
    settings = {**config.model_dump(mode="json"), **text, "window_length": training.window_length}

    def measure() -> dict[str, Any]:
        curves = measure_gradients(dataset, config, training.window_length)
        return {"settings": settings, "curves": [curve.model_dump() for curve in curves]}

    path, key = comparison_place(home, "gradients", settings)
    record_of = partial(GradientComparison, key=key)
    return measure_once(home, path, key, measure, record_of, draw_gradient_comparison, force)


@stage("probe echo")
def compare_echo(home: Home, config: EchoConfig, *, force: bool = False) -> EchoComparison:
    """Compare the memory of networks of each kind by measure_echo(), unless the result is stored."""
    settings = config.model_dump(mode="json")

    def measure() -> dict[str, Any]:
        return {"settings": settings, "scores": [score.model_dump() for score in measure_echo(config)]}

    path, key = comparison_place(home, "echo", settings)
    return measure_once(home, path, key, measure, partial(EchoComparison, key=key), draw_echo, force)


@stage("probe abilities")
def compare_abilities(
    home: Home, config: AbilitiesConfig, *, force: bool = False, open_engine: OpenEngine = in_this_process
) -> AbilityComparison:
    """Measure each combination of network, task and seed that is not stored yet.

    Write a Parquet file with all results.
    """
    settings = result_settings(config)

    def measure() -> dict[str, Any]:
        scores = all_abilities(home, config, force, open_engine)
        return {"settings": settings, "scores": [score.model_dump() for score in scores]}

    path, key = comparison_place(home, "abilities", settings)
    found = measure_once(home, path, key, measure, partial(AbilityComparison, key=key), draw_abilities, force)
    if not (found.skipped and found.table.exists()):
        with atomic_file(found.table) as partial_table:
            pq.write_table(pa.Table.from_pylist(found.rows), partial_table, compression="zstd")
    return found


def all_abilities(home: Home, config: AbilitiesConfig, force: bool, open_engine: OpenEngine) -> list[AbilityScore]:
    """Measure all combinations of network, task and seed.

    All networks with the first seed come first, then those with the second seed, and so on. After an interruption, the
    stored results therefore include every network.
    """
    networks = network_names(config)
    calls = [(network, task, seed) for seed in range(config.seeds) for task in config.tasks for network in networks]
    scores: list[AbilityScore] = []
    with open_engine(len(calls)) as engine:
        score: AbilityScore
        for _, score in results_in_order(engine, stored_ability, ((home, config, *call, force) for call in calls)):
            scores.append(score)
            accuracies = zip(score.lengths, score.accuracies, strict=True)
            logger.info(
                "probe abilities: %d of %d: %s, %s, seed %d, %d steps: %s",
                *(len(scores), len(calls), score.network, score.task, score.seed, score.steps),
                ", ".join(f"{accuracy:.0%} at {length}" for length, accuracy in accuracies),
            )
    return scores


def stored_ability(
    home: Home, config: AbilitiesConfig, network: str, task: SyntheticTaskName, seed: int, force: bool
) -> AbilityScore:
    """Return the ability score of one network, which an earlier or smaller probe may have stored.

    If it is not stored, measure and store it.
    """
    threads = torch.get_num_threads()
    # A small network needs only one thread, and other processes may train other networks at the same time.
    torch.set_num_threads(1)
    chosen = {"kinds", "diagonal", "tasks", "seeds"}
    settings = {name: value for name, value in result_settings(config).items() if name not in chosen}
    path, key = comparison_place(home, "ability", {**settings, "network": network, "task": task, "seed": seed})
    try:
        value, _ = write_json_once(
            home, path, key, lambda: measure_ability(config, network, task, seed).model_dump(), force=force
        )
    finally:
        torch.set_num_threads(threads)
    return AbilityScore(**value)


def comparison_place(home: Home, name: str, settings: dict[str, Any]) -> tuple[Path, str]:
    """Return the path NAME-KEY.json in home.probes and the complete key, a digest of the settings."""
    key = stage_key("probe-comparison", probe=name, torch=version("torch"), **settings)
    home.make(home.probes)
    return home.probes / f"{name}-{key[:8]}.json", key
