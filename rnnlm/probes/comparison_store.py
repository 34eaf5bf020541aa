"""Run each comparison of `rnnlm probe` once per settings: JSON and a plot in home.probes."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from rnnlm.config import TrainingConfig
from rnnlm.home import Home
from rnnlm.probes.echo import measure_echo
from rnnlm.probes.gradients import measure_gradients
from rnnlm.probes.probe_config import EchoConfig, GradientProbeConfig
from rnnlm.probes.probe_plots import draw_echo, draw_gradient_comparison
from rnnlm.probes.probe_records import EchoComparison, GradientComparison, ProbeComparison
from rnnlm.probes.run_probes import measure_and_draw
from rnnlm.records import DatasetRecord
from rnnlm.stages import stage, stage_key

C = TypeVar("C", bound=ProbeComparison)


@stage("probe gradients")
def stored_gradients(
    home: Home,
    dataset: DatasetRecord,
    training: TrainingConfig,
    config: GradientProbeConfig,
    *,
    force: bool = False,
) -> GradientComparison:
    """measure_gradients on the dataset, unless its result is stored already."""
    text = {"corpus": dataset.corpus_name, "dataset_id": dataset.dataset_id, "mode": dataset.mode}
    settings = {**config.model_dump(mode="json"), **text, "window_length": training.window_length}

    def build() -> dict[str, Any]:
        curves = measure_gradients(dataset, config, training.window_length)
        return {"curves": [curve.model_dump(mode="json") for curve in curves]}

    def draw(found: GradientComparison, path: Path) -> None:
        draw_gradient_comparison(found.curves, path)

    return stored_comparison(home, "gradients", settings, build, GradientComparison, draw, force)


@stage("probe echo")
def stored_echo(home: Home, config: EchoConfig, *, force: bool = False) -> EchoComparison:
    """measure_echo, unless its result is stored already."""

    def build() -> dict[str, Any]:
        return {"scores": [score.model_dump(mode="json") for score in measure_echo(config)]}

    def draw(found: EchoComparison, path: Path) -> None:
        draw_echo(found.scores, config.symbols, path)

    return stored_comparison(home, "echo", config.model_dump(mode="json"), build, EchoComparison, draw, force)


def stored_comparison(
    home: Home,
    name: str,
    settings: dict[str, Any],
    build: Callable[[], dict[str, Any]],
    kind: type[C],
    draw: Callable[[C, Path], None],
    force: bool,
) -> C:
    """The record made by `build`, stored as NAME-KEY.json and .png; the key is a digest of the settings."""
    key = stage_key("probe-comparison", probe=name, torch=version("torch"), **settings)
    home.make(home.probes)
    figures = home.probes / f"{name}-{key[:8]}.json"
    record_of = partial(kind, key=key, figures=figures)
    return measure_and_draw(home, figures, key, lambda: {"settings": settings, **build()}, record_of, draw, force)
