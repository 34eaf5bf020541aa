"""Probe the model of a finished run: measure once, and store JSON and a plot in the run's folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rnnlm.config import ProbesConfig
from rnnlm.home import Home, atomic_file
from rnnlm.models.model_factory import load_model
from rnnlm.probes.gradients import gradient_norms
from rnnlm.probes.positions import right_by_position
from rnnlm.probes.probe_plots import draw_accuracy, draw_gradient_flow
from rnnlm.probes.windows import stored_windows
from rnnlm.records import DatasetRecord, GradientFlowRecord, PositionsRecord, RunRecord, StageRecord
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit, longest_row
from rnnlm.stages import stage_key, write_json_once

BATCH_ROWS = 64
R = TypeVar("R", bound=StageRecord)


def measure_gradient_flow(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> GradientFlowRecord:
    """Gradient norms against the distance back, on validation text: gradient_flow.json and .png."""

    def build() -> dict[str, object]:
        model = load_model(run.model_folder).language_model
        token_ids, target_ids = stored_windows(dataset, "valid", config.gradient_steps + 1, config.gradient_rows)
        return {"norms": gradient_norms(model, token_ids, target_ids).tolist(), "rows": len(token_ids)}

    settings = {"steps": config.gradient_steps, "rows": config.gradient_rows}
    path = run.folder / "gradient_flow.json"
    return measure_once(home, dataset, run, path, settings, build, GradientFlowRecord, draw_gradient_flow, force)


def measure_positions(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> PositionsRecord:
    """Accuracy against the position in the row, on the test split: positions.json and .png."""

    def build() -> dict[str, object]:
        model = load_model(run.model_folder).language_model
        batches = evaluation_batches(StoredSplit(dataset, "test"), dataset.mode, BATCH_ROWS)
        positions = right_by_position(model, batches, config.given_tokens)
        return {**positions.model_dump(), "longest_trained": longest_row(dataset, "train")}

    settings = {"given_tokens": config.given_tokens}
    path = run.folder / "positions.json"
    return measure_once(home, dataset, run, path, settings, build, PositionsRecord, draw_accuracy, force)


def measure_once(
    home: Home,
    dataset: DatasetRecord,
    run: RunRecord,
    path: Path,
    settings: dict[str, int],
    build: Callable[[], dict[str, object]],
    kind: type[R],
    draw: Callable[[R, Path], None],
    force: bool,
) -> R:
    """The record made by `build` with these settings, with a plot beside it."""
    key = stage_key("probes", run=run.run_id, dataset=dataset.dataset_id, **settings)
    return measure_and_draw(home, path, key, build, kind, draw, force)


def measure_and_draw(
    home: Home,
    path: Path,
    key: str,
    build: Callable[[], dict[str, Any]],
    record_of: Callable[..., R],
    draw: Callable[[R, Path], None],
    force: bool,
) -> R:
    """A record of the figures made by `build`, stored at `path` under the key, with a plot beside it."""
    picture = path.with_suffix(".png")
    value, skipped = write_json_once(home, path, key, build, force=force)
    record = record_of(**value, picture=picture, skipped=skipped)
    if not (skipped and picture.exists()):
        with atomic_file(picture) as partial:
            draw(record, partial)
    return record
