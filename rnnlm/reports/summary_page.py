"""The summary of a pipeline run: one page that says in the morning what the night has done."""

from datetime import UTC, datetime
from pathlib import Path

from rnnlm.display.text_layout import markdown_lines, markdown_text, picture_report
from rnnlm.evaluation.score_tables import counts_sentence
from rnnlm.registry.night_events import unchanged_since, verdict
from rnnlm.reports.registry_page import evidence_table
from rnnlm.storage.records import EvaluationRecord, ListedVersion, RegisteredVersion, StageRecord, TrainedRecord
from rnnlm.storage.stages import COMPLETE
from rnnlm.tracking.mlflow_runs import run_list_address
from rnnlm.tracking.run_names import page_key, short_date

SAMPLES_SHOWN = 3


def summary_report(corpus_name: str, preset: str, record: TrainedRecord, score_warnings: tuple[str, ...] = ()) -> str:
    """Markdown. The loss curve is left out where nothing was trained: an earlier run's summary has it.

    score_warnings: what a reader of the scores must know; shown below them.
    """
    curve = record.logged.small_loss_curve
    parts = [
        f"## {corpus_name} · {preset}: {headline(record)}",
        comparison_table(record.evaluation, record.registered),
        *(f"**Warning: {markdown_text(warning)}.**" for warning in score_warnings),
        decision(record.registered),
        f"### Stages\n\n{stage_table(record.stages)}",
    ]
    if curve is not None and not record.run.skipped:
        parts.append(f"#{picture_report('Loss curve', curve)}")
    samples = [
        f"- **{markdown_text(sample.prompt)}** {markdown_text(sample.text)}".replace("**** ", "").replace("\n", " ")
        for sample in record.samples.samples[:SAMPLES_SHOWN]
    ]
    parts.append("\n".join(["### Samples\n", *samples]))
    return "\n\n".join([*parts, links(corpus_name, record)])


def headline(record: TrainedRecord) -> str:
    test = record.evaluation.scores["test"]
    if record.is_unchanged:
        return unchanged_since(record)
    result = "new champion" if record.is_promoted else "the champion stays"
    if record.registered.alias == "champion" and not record.is_promoted:
        result = "already champion"
    return f"{result}, test perplexity {test.perplexity:.2f}, {test.bits_per_byte:.3f} bits per byte"


def comparison_table(evaluation: EvaluationRecord, registered: RegisteredVersion) -> str:
    """The scores of this run's version beside the version before it and the champion."""
    test, valid = evaluation.scores["test"], evaluation.scores["valid"]
    others: dict[str, ListedVersion] = {}
    if registered.rival is not None:
        name = "champion before" if registered.alias == "champion" else "champion"
        others[f"{name} (version {registered.rival.version})"] = registered.rival
    if registered.before is not None and registered.before not in others.values():
        others[f"last run's (version {registered.before.version})"] = registered.before
    heads = ["", f"this run (version {registered.version})", *others]
    rows = [
        ["test perplexity", f"{test.perplexity:.2f}"]
        + [compared(test.perplexity, one.test_perplexity, ".2f") for one in others.values()],
        ["test bits per byte", f"{test.bits_per_byte:.3f}"]
        + [compared(test.bits_per_byte, one.bits_per_byte, ".3f") for one in others.values()],
        ["validation perplexity", f"{valid.perplexity:.2f}"]
        + [compared(valid.perplexity, one.validation_perplexity, ".2f") for one in others.values()],
    ]
    note = "In brackets: this run's value against it; less is better."
    beside = counts_sentence(test)
    notes = [*([note] if others else []), *([f"Counting: {beside}."] if beside else [])]
    return "\n\n".join([markdown_lines(heads, rows), *notes])


def compared(ours: float, other: float | None, digits: str) -> str:
    """`83.10 (-3.3%)`: the other's value, and how ours differs from it."""
    return "" if other is None else f"{other:{digits}} ({ours / other - 1:+.1%})"


def decision(registered: RegisteredVersion) -> str:
    """Champion or challenger, why, and the figures that it was decided on."""
    text = f"### Decision\n\n`{registered.name}` version {registered.version} is **{registered.alias}**: "
    text += markdown_text(verdict(registered))
    return f"{text}\n\n{evidence_table(registered.evidence)}" if registered.evidence else text


def stage_table(stages: dict[str, StageRecord]) -> str:
    rows = [(name, stage_state(stage), f"{stage.seconds:.1f} s") for name, stage in stages.items()]
    total = sum(stage.seconds for stage in stages.values())
    return markdown_lines(("stage", "", "time"), [*rows, ("**together**", "", f"**{total:.1f} s**")])


def stage_state(stage: StageRecord) -> str:
    """`done`, or since when its output exists."""
    if not stage.skipped:
        return "done"
    made = made_at(stage)
    return f"skipped: unchanged since {short_date(made)}" if made else "skipped: its verified output exists"


def made_at(stage: StageRecord) -> datetime | None:
    """When a skipped stage's output was made; None if its record does not tell."""
    if isinstance(stage, RegisteredVersion) and stage.created:
        return datetime.fromisoformat(stage.created)
    folder: Path | None = getattr(stage, "folder", None)
    if folder is None or not folder.is_dir():
        return None
    # Not COMPLETE: each use of the output touches it (rnnlm/upkeep). A run's folder gets further files later.
    finished = folder / "run.json"
    written = [finished] if finished.exists() else [path for path in folder.iterdir() if path.name != COMPLETE]
    return datetime.fromtimestamp(min(path.stat().st_mtime for path in written), UTC) if written else None


def links(corpus_name: str, record: TrainedRecord) -> str:
    """Pages of MLflow, and the history of this page, which Prefect's own UI resolves."""
    named = {
        "the training in MLflow": record.logged.run_url,
        "all trainings": run_list_address(record.logged.run_url) if record.logged.run_url else "",
        "the model version": record.registered.url,
        "all summaries of this corpus": f"/artifacts/key/{page_key(corpus_name, 'summary')}",
    }
    return "### Links\n\n" + " · ".join(f"[{name}]({url})" for name, url in named.items() if url)
