"""Measurements of a trained model after its evaluation, which extensions add: pages about it, and plots."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import PipelineConfig
from rnnlm.extension_points import plugged
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord


@dataclass(frozen=True)
class Measured:
    """A page of markdown about a model, if there is something to say, and plots for its MLflow run."""

    page: str = ""
    pictures: tuple[Path, ...] = ()


def always(config: PipelineConfig, run: RunRecord) -> bool:
    return True


@dataclass(frozen=True)
class ModelMeasurement:
    """A further measurement. Its output is kept in the run's folder, where `measure` finds it unless forced."""

    name: str
    measure: Callable[[Home, PipelineConfig, DatasetRecord, RunRecord, bool], Measured]  # the last: force
    is_wanted: Callable[[PipelineConfig, RunRecord], bool] = always


def measurements(config: PipelineConfig, run: RunRecord) -> list[ModelMeasurement]:
    """Return the measurements that the configuration asks for, and that are possible with this model."""
    found: list[ModelMeasurement] = plugged("measurements")
    return [one for one in found if one.is_wanted(config, run)]
