"""Probe the model of a run. Each result is stored once in the run's folder, as JSON with a plot."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.gradient_norms import gradient_norms
from rnnlm.evaluation.measurements import Measured, ModelMeasurement
from rnnlm.extensions.probes.probe_page import gradient_report, positions_report
from rnnlm.extensions.probes.probe_plots import draw_accuracy, draw_gradient_flow
from rnnlm.extensions.probes.probe_records import GradientFlowRecord, PositionsRecord, RightByPosition
from rnnlm.extensions.probes.run_probes_config import ProbesConfig
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit, longest_row
from rnnlm.sequences.windows import stored_windows
from rnnlm.storage.home import Home, atomic_file
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, RunRecord, StageRecord
from rnnlm.storage.stages import stage_key
from rnnlm.tokenizers.text_tokenizer import EOS

BATCH_ROWS = 64
LOGIT_ROWS = 1_024  # The number of rows whose logits are computed together.
R = TypeVar("R", bound=StageRecord)


def measure_gradient_flow(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, *, force: bool = False
) -> GradientFlowRecord:
    """Measure gradient norms by distance back on validation text, and store them in gradient_flow.json and .png."""
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
    """Measure the accuracy by position in the row on the test split, and store it in positions.json and .png."""

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
    """Return the record that is stored at `path` under `key`. If there is none, measure its values and store them.

    A plot is stored in the same folder.
    """
    picture = path.with_suffix(".png")
    value, skipped = write_json_once(home, path, key, measure, force=force)
    record = record_of(**value, picture=picture, skipped=skipped)
    if not (skipped and picture.exists()):
        with atomic_file(picture) as partial_picture:
            draw(record, partial_picture)
    return record


@torch.inference_mode()
def right_by_position(model: LanguageModel, batches: Iterable[Batch], given_tokens: int) -> RightByPosition:
    """Return the accuracy by position in the row, and the fraction of rows that are continued correctly up to it.

    Rows start from a state of zeros. `<eos>` is neither predicted nor scored, because predicting the end of a row does
    not test memory.
    """
    # A tensor of shape (3, t) for each batch: the numbers of rows, of correct predictions and of exact continuations.
    counts: list[Tensor] = []
    for batch in batches:
        counted = batch.mask & (batch.target_ids != EOS)  # A mask of the targets that are scored, (b, t).
        hits = (best_guesses(model, batch.input_ids) == batch.target_ids) & counted
        faultless = hits.clone()
        faultless[:, :given_tokens] = True
        faultless = faultless.cumprod(dim=1).bool() & counted
        counts.append(torch.stack([counted.sum(dim=0), hits.sum(dim=0), faultless.sum(dim=0)]))
    longest = max((count.shape[1] for count in counts), default=0)
    summed = torch.zeros(3, longest, dtype=torch.int64)
    for count in counts:
        summed[:, : count.shape[1]] += count
    columns = [column for column in summed.t().tolist() if column[0]]
    return RightByPosition(
        rows=tuple(rows for rows, _, _ in columns),
        right=tuple(right / rows for rows, right, _ in columns),
        exact=tuple(
            exact / rows if position >= given_tokens else None for position, (rows, _, exact) in enumerate(columns)
        ),
        given_tokens=given_tokens,
    )


def best_guesses(model: LanguageModel, input_ids: Tensor) -> Tensor:
    """Return the most likely next token other than `<eos>`, (b, t), for input_ids (b, t) int64."""
    hidden, _ = model.hidden(input_ids)
    guesses = []
    for rows in hidden.flatten(0, 1).split(LOGIT_ROWS):
        logits = model.logits(rows)
        logits[:, EOS] = float("-inf")
        guesses.append(logits.argmax(dim=-1))
    return torch.cat(guesses).view(input_ids.shape)


def gradients_of_run(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, force: bool
) -> Measured:
    found = measure_gradient_flow(home, dataset, run, ProbesConfig.of(config), force=force)
    return Measured(gradient_report(found), (found.picture,))


def positions_of_run(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, force: bool
) -> Measured:
    found = measure_positions(home, dataset, run, ProbesConfig.of(config), force=force)
    return Measured(positions_report(found), (found.picture,))


def has_one_network(config: PipelineConfig, run: RunRecord) -> bool:
    return ProbesConfig.of(config).gradient_flow and config.model.has_network and not run.members


def asks_for_positions(config: PipelineConfig, run: RunRecord) -> bool:
    return ProbesConfig.of(config).positions


GRADIENT_PROBE = ModelMeasurement("gradients", gradients_of_run, has_one_network)
POSITION_PROBE = ModelMeasurement("positions", positions_of_run, asks_for_positions)
