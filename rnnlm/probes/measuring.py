"""What a finished run's model does, measured once and kept in the run's folder: JSON, and a picture of it."""

from collections.abc import Callable
from pathlib import Path

from rnnlm.config import ProbesConfig
from rnnlm.home import Home, atomic_file, digest_of
from rnnlm.models.building import load_model
from rnnlm.probes.comparing import flow_of
from rnnlm.probes.gradients import gradient_norms
from rnnlm.probes.pictures import draw_gradient_flow, draw_positions
from rnnlm.probes.positions import right_by_position
from rnnlm.probes.windows import stored_windows
from rnnlm.records import DatasetRecord, GradientFlowRecord, PositionsRecord, RunRecord
from rnnlm.sequences.feeding import evaluation_batches
from rnnlm.sequences.reading import StoredSplit, longest_row
from rnnlm.stages import once_in_run

STAGE_VERSION = 1
BATCH_ROWS = 64


def measure_gradient_flow(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> GradientFlowRecord:
    """The gradient's norm against the distance back, on validation text: gradient_flow.json and .png."""

    def build() -> dict[str, object]:
        model = load_model(run.model_folder).language_model
        token_ids, target_ids = stored_windows(dataset, "valid", config.gradient_steps + 1, config.gradient_rows)
        return {"norms": flow_of(gradient_norms(model, token_ids, target_ids)), "rows": len(token_ids)}

    settings = {"steps": config.gradient_steps, "rows": config.gradient_rows}
    key = digest_of({"stage": STAGE_VERSION, "run": run.run_id, "dataset": dataset.dataset_id, **settings})
    path = run.folder / "gradient_flow.json"
    value, skipped = once_in_run(home, path, key, build, force=force)
    record = GradientFlowRecord(**value, picture=path.with_suffix(".png"), skipped=skipped)
    draw_once(record.picture, lambda partial: draw_gradient_flow(record, partial), anew=not skipped)
    return record


def measure_positions(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> PositionsRecord:
    """The share of right guesses against the position in the row, on the test split: positions.json and .png."""

    def build() -> dict[str, object]:
        model = load_model(run.model_folder).language_model
        batches = evaluation_batches(StoredSplit(dataset, "test"), dataset.mode, BATCH_ROWS)
        positions = right_by_position(model, batches, config.given_tokens)
        return {**positions.model_dump(), "longest_trained": longest_row(dataset, "train")}

    settings = {"given_tokens": config.given_tokens}
    key = digest_of({"stage": STAGE_VERSION, "run": run.run_id, "dataset": dataset.dataset_id, **settings})
    path = run.folder / "positions.json"
    value, skipped = once_in_run(home, path, key, build, force=force)
    record = PositionsRecord(**value, picture=path.with_suffix(".png"), skipped=skipped)
    draw_once(record.picture, lambda partial: draw_positions(record, partial), anew=not skipped)
    return record


def draw_once(picture: Path, draw: Callable[[Path], None], *, anew: bool) -> None:
    """Write the picture atomically, where it is missing or what it shows was measured anew."""
    if anew or not picture.exists():
        with atomic_file(picture) as partial:
            draw(partial)
        picture.chmod(0o644)
