"""Measurements of a trained model after its evaluation, such as pages and plots, which extensions add."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import PipelineConfig
from rnnlm.extension_points import plugged
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord


@dataclass(frozen=True)
class Measured:
    """The result of a measurement: plots for the MLflow run, and a Markdown page unless there is nothing to report."""

    page: str = ""
    pictures: tuple[Path, ...] = ()


def always(config: PipelineConfig, run: RunRecord) -> bool:
    return True


@dataclass(frozen=True)
class ModelMeasurement:
    """A measurement that an extension makes of a trained model.

    Its result is stored in the run's folder and reused by later calls of `measure`, unless the last argument is true.
    """

    name: str
    # The function that measures the model. If its last argument is true, a stored result is not used.
    measure: Callable[[Home, PipelineConfig, DatasetRecord, RunRecord, bool], Measured]
    is_wanted: Callable[[PipelineConfig, RunRecord], bool] = always


def measurements(config: PipelineConfig, run: RunRecord) -> list[ModelMeasurement]:
    """Return the measurements that the configuration requests and that are possible with the run's model."""
    found: list[ModelMeasurement] = plugged("measurements")
    return [one for one in found if one.is_wanted(config, run)]
