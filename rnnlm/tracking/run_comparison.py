"""The list of runs in an rnnlm home, and comparisons of runs by settings, scores and loss curves."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rnnlm.config.moved_settings import flatten
from rnnlm.display.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, new_figure, set_legend, set_titles
from rnnlm.errors import ModelError
from rnnlm.storage.home import Home
from rnnlm.storage.records import Record
from rnnlm.storage.redaction import redacted
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import find_damage
from rnnlm.tracking.loss_curve import show_trained_tokens, smoothed
from rnnlm.training.checkpointing.run_lookup import find_run
from rnnlm.training.history import read_measurements, read_series

CURVE_COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, GREY)


class RunOverview(Record):
    """An overview of one run. Its scores are those of the test split, or None if it has not been evaluated."""

    run_id: str
    started: str  # The time when the run was started, in UTC.
    corpus: str
    settings: dict[str, Any]  # The values of the settings by dotted path.
    finished: bool
    # A description of damage to the records of a finished run, or "". The weights are not checked.
    damage: str = ""
    steps: int
    trained_tokens: int
    validation_perplexity: float | None  # The run's best validation perplexity so far.
    test_perplexity: float | None
    bits_per_byte: float | None
    # The bits per byte of the network without the n-gram model, if the model is a mixture of both.
    network_bits_per_byte: float | None = None
    counts_bits_per_byte: float | None = None
    members: int = 0  # The number of networks in an ensemble, or 0 if the run is not an ensemble.


class RunComparison(Record):
    """Several runs side by side, in the given order.

    `differences` contains the settings that differ, with their value in each run.
    """

    runs: tuple[RunOverview, ...]
    differences: dict[str, tuple[Any, ...]]
    picture: Path


def list_runs(home: Home) -> list[RunOverview]:
    """Return all runs of the rnnlm home, beginning with the run that was started last."""
    return sorted(map(overview, RunFolder.all(home)), key=lambda run: run.started, reverse=True)


def overview(run: RunFolder) -> RunOverview:
    measurements = [measured for measured, _ in read_measurements(run.history)]
    metrics = [measured["metrics"] for measured in measurements]
    validated = [one["validation_perplexity"] for one in metrics if one.get("validation_perplexity")]
    test, config = run.test_scores, run.configuration
    return RunOverview(
        run_id=run.path.name,
        started=run.time_of_start or earliest_known_time(run, measurements),
        corpus=redacted(str(config.get("corpus", {}).get("source", ""))),
        settings={path: value for path, value in flatten(config).items() if path != "force"},
        finished=run.finished,
        damage=find_damage(run.path, ("model",)) or "" if run.finished else "",
        steps=max((measured["step"] for measured in measurements), default=0),
        trained_tokens=int(max((one.get("trained_tokens", 0) for one in metrics), default=0)),
        validation_perplexity=min(validated, default=None),
        test_perplexity=test.get("perplexity"),
        bits_per_byte=test.get("bits_per_byte"),
        network_bits_per_byte=(test.get("network") or {}).get("bits_per_byte"),
        counts_bits_per_byte=(test.get("counts") or {}).get("bits_per_byte"),
        members=len(run.facts.get("members", ())),
    )


def earliest_known_time(run: RunFolder, measurements: Sequence[dict[str, Any]]) -> str:
    """Return the time of a run's first measurement, or of its files, for runs whose start was not recorded.

    Copying or restoring an rnnlm home changes the times of files, but not those of measurements.
    """
    measured = next((one["time_milliseconds"] / 1000 for one in measurements if "time_milliseconds" in one), None)
    seconds = run.started_path.stat().st_mtime if measured is None else measured
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def compare_runs(home: Home, names: Sequence[str], picture: Path) -> RunComparison:
    """Compare runs, given by id, beginning of an id or folder, and write their loss curves as a PNG.

    Raise ModelError if a name does not refer to exactly one run, or if there are fewer than two runs.
    """
    folders = list(dict.fromkeys(find_run(home, name) for name in names))
    if len(folders) < 2:
        raise ModelError("compare needs two different runs; rnnlm runs lists them")
    runs = tuple(overview(RunFolder(folder)) for folder in folders)
    paths = sorted({path for run in runs for path in run.settings})
    values = {path: tuple(run.settings.get(path) for run in runs) for path in paths}
    differences = {path: row for path, row in values.items() if any(value != row[0] for value in row)}
    plot_loss_curves(folders, picture)
    return RunComparison(runs=runs, differences=differences, picture=picture)


def plot_loss_curves(folders: Sequence[Path], picture: Path) -> None:
    """Write a PNG with each run's validation loss over its trained tokens, and its training loss in a pale colour."""
    figure, (axes,) = new_figure((8, 4.5))
    for index, folder in enumerate(folders):
        colour = CURVE_COLOURS[index % len(CURVE_COLOURS)]
        xs, ys = read_series(RunFolder(folder).history, "train_loss_nats")
        axes.plot(xs, smoothed(ys), color=colour, linewidth=1, alpha=0.35)
        xs, ys = read_series(RunFolder(folder).history, "validation_nll_nats_per_token")
        axes.plot(xs, ys, color=colour, marker="o", markersize=4, linewidth=1.8, label=folder.name)
    set_titles(axes, "Validation loss (pale: training)", y="loss, nats per token")
    show_trained_tokens(axes)
    set_legend(figure, axes)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, format="png")
