"""List training runs with `rnnlm runs`, and compare some of them."""

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.command import ReadingSession
from flows.commands.options import complete_runs
from rnnlm.config import PipelineConfig
from rnnlm.config.kinds import NETWORKS
from rnnlm.config.moved_settings import flatten
from rnnlm.config.preset_files import preset_files
from rnnlm.config.presets import preset_settings
from rnnlm.display.text_layout import LINE_WIDTH, columns

if TYPE_CHECKING:
    from rnnlm.tracking.run_comparison import RunComparison, RunOverview

HEADING = "Measure"


def runs_command(
    session: ReadingSession,
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Sort by validation perplexity, and show the settings that each run changes."),
    ] = False,
) -> None:
    """List the training runs, the latest first.

    With --changes, the list is a log of attempts. It shows the settings in which each run differs from its preset, next
    to the run's scores.

    rnnlm runs
    rnnlm runs --changes
    """
    from rnnlm.tracking.run_comparison import list_runs

    runs = list_runs(session.home)
    if changes:
        runs.sort(key=lambda run: (run.corpus, run.validation_perplexity or math.inf))
    lines = columns([run_row(run) for run in runs]) if runs else ["no runs yet; rnnlm run starts one"]
    if changes and runs:
        heads, rows = lines[: -len(runs)], lines[-len(runs) :]
        lines = [*heads, *(line for run, row in zip(runs, rows, strict=True) for line in (row, *change_lines(run)))]
    from rnnlm.reports.json_values import overview_value

    session.print_result("\n".join(lines), [overview_value(run) for run in runs])


def change_lines(run: "RunOverview") -> list[str]:
    """Return indented lines with the run's preset and the settings that differ from it."""
    preset = str(run.settings.get("preset", "default"))
    usual = flatten(PipelineConfig().model_dump(mode="json"))
    usual |= preset_settings(preset) if preset in preset_files() else {}
    changed = [
        f"{path}={shown(value)}"
        for path, value in run.settings.items()
        if path not in ("preset", "corpus.source") and usual.get(path) != value
    ]
    text = " ".join([preset, *changed])
    return textwrap.wrap(text, LINE_WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def runs_compare_command(
    session: ReadingSession,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Runs to compare, each given by its id, the beginning of the id, or its folder.",
            autocompletion=complete_runs,
        ),
    ],
    picture: Annotated[Path, typer.Option(metavar="FILE", help="File for the plot of the loss curves.")] = Path(
        "comparison.png"
    ),
) -> None:
    """Compare the scores and differing settings of runs, and plot their loss curves in one picture.

    rnnlm runs compare 9f46 03ab
    """
    from rnnlm.reports.json_values import comparison_value
    from rnnlm.tracking.run_comparison import compare_runs

    comparison = compare_runs(session.home, runs, picture)
    session.print_result(comparison_text(comparison), comparison_value(comparison))


def run_row(run: "RunOverview") -> dict[str, Any]:
    settings = run.settings
    kind = settings.get("model.kind", "elman")
    shape = f"{settings.get('model.layers', '?')}x{settings.get('model.hidden_size', '?')}" if kind in NETWORKS else ""
    model = shape if kind == "elman" else f"{kind} {shape}".strip()
    return {
        "run": run.run_id[:10],
        "corpus": Path(run.corpus).stem[:12],
        "model": f"ensemble of {run.members}" if run.members else model,
        "state": "damaged" if run.damage else "finished" if run.finished else f"step {run.steps:,}",
        "test bits/byte": figure(run.bits_per_byte, 3),
        "test perplexity": figure(run.test_perplexity, 2),
        "started": run.started[5:16].replace("T", " "),
    }


def comparison_text(comparison: "RunComparison") -> str:
    """Return a table with one column for each run. The scores come first, followed by the settings that differ."""
    names = [run.run_id[:8] for run in comparison.runs]
    scores = {
        "test bits/byte": [figure(run.bits_per_byte, 3) for run in comparison.runs],
        "· the network alone": [figure(run.network_bits_per_byte, 3) for run in comparison.runs],
        "· the counts alone": [figure(run.counts_bits_per_byte, 3) for run in comparison.runs],
        "test perplexity": [figure(run.test_perplexity, 2) for run in comparison.runs],
        "best sampled validation perplexity": [figure(run.validation_perplexity, 2) for run in comparison.runs],
        "trained tokens": [f"{run.trained_tokens:,}" for run in comparison.runs],
    }
    rows = scores | {path: [shown(value) for value in values] for path, values in comparison.differences.items()}
    table = [{"": label} | dict(zip(names, cells, strict=True)) for label, cells in rows.items()]
    return "\n".join([*columns(table), f"curves     {comparison.picture}"])


def shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"…{text[-19:]}"


def figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
