"""The comparisons of `rnnlm probe`, each made once for its settings: JSON under home.probes, and a picture of it."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from rnnlm.config import TrainingConfig
from rnnlm.home import Home
from rnnlm.probes.echo import measure_echo
from rnnlm.probes.gradient_comparison import compare_gradients
from rnnlm.probes.probe_config import EchoConfig, GradientProbeConfig
from rnnlm.probes.probe_plots import draw_echo, draw_gradient_comparison
from rnnlm.probes.probe_records import Comparison, EchoComparison, GradientComparison
from rnnlm.probes.run_probes import measured_and_drawn
from rnnlm.records import DatasetRecord
from rnnlm.stages import stage, stage_key

C = TypeVar("C", bound=Comparison)


@stage("probe gradients")
def kept_gradients(
    home: Home,
    dataset: DatasetRecord,
    training: TrainingConfig,
    config: GradientProbeConfig,
    *,
    force: bool = False,
) -> GradientComparison:
    """compare_gradients on the dataset, measured where it is not there yet."""
    text = {"corpus": dataset.corpus_name, "dataset_id": dataset.dataset_id, "mode": dataset.mode}
    settings = {**config.model_dump(mode="json"), **text, "window_length": training.window_length}

    def build() -> dict[str, Any]:
        curves = compare_gradients(dataset, config, training.window_length)
        return {"curves": [curve.model_dump(mode="json") for curve in curves]}

    def draw(found: GradientComparison, path: Path) -> None:
        draw_gradient_comparison(found.curves, path)

    return kept(home, "gradients", settings, build, GradientComparison, draw, force)


@stage("probe echo")
def kept_echo(home: Home, config: EchoConfig, *, force: bool = False) -> EchoComparison:
    """measure_echo, measured where it is not there yet."""

    def build() -> dict[str, Any]:
        return {"scores": [score.model_dump(mode="json") for score in measure_echo(config)]}

    def draw(found: EchoComparison, path: Path) -> None:
        draw_echo(found.scores, config.symbols, path)

    return kept(home, "echo", config.model_dump(mode="json"), build, EchoComparison, draw, force)


def kept(
    home: Home,
    name: str,
    settings: dict[str, Any],
    build: Callable[[], dict[str, Any]],
    kind: type[C],
    draw: Callable[[C, Path], None],
    force: bool,
) -> C:
    """The record of what `build` measures; NAME-KEY.json and .png, named by the settings."""
    key = stage_key("probe-comparison", probe=name, torch=version("torch"), **settings)
    home.make(home.probes)
    figures = home.probes / f"{name}-{key[:8]}.json"
    record_of = partial(kind, key=key, figures=figures)
    return measured_and_drawn(home, figures, key, lambda: {"settings": settings, **build()}, record_of, draw, force)
