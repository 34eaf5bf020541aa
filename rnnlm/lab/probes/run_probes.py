"""Probe a run, each probe once: figures as JSON and a plot, in its folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rnnlm.config import ProbesConfig
from rnnlm.home import Home, atomic_file
from rnnlm.lab.probes.gradients import gradient_norms
from rnnlm.lab.probes.positions import right_by_position
from rnnlm.lab.probes.probe_plots import (
    draw_accuracy,
    draw_gradient_flow,
)
from rnnlm.lab.probes.windows import stored_windows
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit, longest_row
from rnnlm.storage.records import DatasetRecord, GradientFlowRecord, PositionsRecord, RunRecord, StageRecord
from rnnlm.storage.stages import stage_key, write_json_once

BATCH_ROWS = 64
R = TypeVar("R", bound=StageRecord)


def measure_gradient_flow(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> GradientFlowRecord:
    """Gradient norms against the distance back, on validation text: gradient_flow.json and .png."""
    steps, rows = config.gradient_steps, config.gradient_rows

    def measure() -> dict[str, Any]:
        model = load_model(run.model_folder)
        token_ids, target_ids = stored_windows(dataset, "valid", steps + 1, rows)
        return {"norms": gradient_norms(model, token_ids, target_ids).tolist(), "rows": len(token_ids)}

    path = run.folder / "gradient_flow.json"
    key = stage_key("probes", run=run.run_id, dataset=dataset.dataset_id, steps=steps, rows=rows)
    return measure_once(home, path, key, measure, GradientFlowRecord, draw_gradient_flow, force)


def measure_positions(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> PositionsRecord:
    """Accuracy against the position in the row, on the test split: positions.json and .png."""

    def measure() -> dict[str, Any]:
        model = load_model(run.model_folder)
        batches = evaluation_batches(StoredSplit(dataset, "test"), dataset.mode, BATCH_ROWS)
        positions = right_by_position(model, batches, config.given_tokens)
        return {**positions.model_dump(), "longest_trained": longest_row(dataset, "train")}

    path = run.folder / "positions.json"
    key = stage_key("probes", run=run.run_id, dataset=dataset.dataset_id, given_tokens=config.given_tokens)
    return measure_once(home, path, key, measure, PositionsRecord, draw_accuracy, force)


def measure_once(
    home: Home,
    path: Path,
    key: str,
    measure: Callable[[], dict[str, Any]],
    record_of: Callable[..., R],
    draw: Callable[[R, Path], None],
    force: bool,
) -> R:
    """A record of the measured figures, stored at `path` under the key, with a plot beside it."""
    picture = path.with_suffix(".png")
    value, skipped = write_json_once(home, path, key, measure, force=force)
    record = record_of(**value, picture=picture, skipped=skipped)
    if not (skipped and picture.exists()):
        with atomic_file(picture) as partial_picture:
            draw(record, partial_picture)
    return record
