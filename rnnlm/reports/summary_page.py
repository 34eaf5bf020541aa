"""The summary of a pipeline run, which is a single page with all results."""

from datetime import UTC, datetime
from pathlib import Path

from rnnlm.display.templates import render
from rnnlm.display.text_layout import TableRows
from rnnlm.evaluation.score_tables import counts_sentence
from rnnlm.evaluation.seed_scores import seed_rows
from rnnlm.registry.decision_text import WAITS, difference_in_words, unchanged_since, verdict
from rnnlm.reports.registry_page import evidence_report
from rnnlm.storage.records import StageRecord
from rnnlm.storage.result_records import EvaluationRecord, ListedVersion, RegisteredVersion, TrainedRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import COMPLETE
from rnnlm.tracking.run_names import page_key, short_date

SAMPLES_SHOWN = 3


def summary_report(corpus_name: str, preset: str, record: TrainedRecord, score_warnings: tuple[str, ...] = ()) -> str:
    """Return the summary of a run in Markdown.

    If nothing was trained, the summary has no loss curve, because the summary of an earlier run shows it.
    `score_warnings` are shown below the scores.
    """
    registered, run_url = record.registered, record.logged.run_url
    return render(
        "reports/summary_page.md.jinja",
        corpus_name=corpus_name,
        preset=preset,
        headline=headline(record),
        scores=compared_scores(record.evaluation, registered, record.run.dataset_id),
        counting=counts_sentence(record.evaluation.scores["test"]),
        seeds=seed_rows(record.seeds) if record.seeds else [],
        score_warnings=score_warnings,
        registered=registered,
        verdict=verdict(registered),
        evidence=registered.evidence and evidence_report(registered.evidence, registered.own_evidence),
        stages=record.stages,
        stage_state=stage_state,
        curve=None if record.run.skipped else record.logged.small_loss_curve,
        samples=record.samples.samples[:SAMPLES_SHOWN],
        links={
            "the training run in MLflow": run_url,
            "all training runs": record.logged.run_list_url,
            "the model version": registered.url,
            # The link has no host, because it is opened in Prefect's own UI.
            "all summaries of this corpus": f"/artifacts/key/{page_key(corpus_name, 'summary')}",
        },
    )


def headline(record: TrainedRecord) -> str:
    test = record.evaluation.scores["test"]
    if record.is_unchanged:
        return unchanged_since(record)
    registered = record.registered
    result = "new champion" if record.is_promoted else "the champion stays"
    if registered.alias == "champion" and not record.is_promoted:
        result = "already champion"
    if registered.evidence is not None:
        if registered.alias == "challenger" and registered.reason.startswith(WAITS):
            result = WAITS
        return f"{result}: {difference_in_words(registered.evidence)} than the champion on the same lines"
    return f"{result}, test perplexity {test.perplexity:.2f}, {test.bits_per_byte:.3f} bits per byte"


def compared_scores(evaluation: EvaluationRecord, registered: RegisteredVersion, dataset: str) -> TableRows:
    """Return the scores of this run's version, of the champion, and of the version before this one.

    `dataset` is the run's dataset id. The difference of two scores is shown only if both were measured on the same text
    and tokens, because only then can they be compared.
    """
    test, valid = evaluation.scores["test"], evaluation.scores["valid"]
    others: dict[str, ListedVersion] = {}
    if registered.rival is not None:
        name = "champion before" if registered.alias == "champion" else "champion"
        others[f"{name} (version {registered.rival.version})"] = registered.rival
    if registered.before is not None and registered.before not in others.values():
        others[f"last run's (version {registered.before.version})"] = registered.before
    scores = (
        ("test perplexity", test.perplexity, "test_perplexity", ".2f"),
        ("test bits per byte", test.bits_per_byte, "bits_per_byte", ".3f"),
        ("validation perplexity", valid.perplexity, "validation_perplexity", ".2f"),
    )
    return [
        {"": name, f"this run (version {registered.version})": f"{ours:{digits}}"}
        | {
            head: compared(ours, getattr(other, field), digits, other.dataset_id == dataset)
            for head, other in others.items()
        }
        for name, ours, field, digits in scores
    ]


def compared(ours: float, other: float | None, digits: str, is_comparable: bool) -> str:
    """Return the other model's value and the relative difference of `ours` from it, such as `83.10 (-3.3%)`."""
    if other is None:
        return ""
    return f"{other:{digits}}" + (f" ({ours / other - 1:+.1%})" if is_comparable else "")


def stage_state(stage: StageRecord) -> str:
    """Return a text such as `done`. For a skipped stage, return the time since which its output exists."""
    if not stage.skipped:
        return "done"
    made = made_at(stage)
    return f"skipped: unchanged since {short_date(made)}" if made else "skipped: its verified output exists"


def made_at(stage: StageRecord) -> datetime | None:
    """Return the time when the output of a skipped stage was created, or None if its record has no time."""
    if isinstance(stage, RegisteredVersion) and stage.created:
        return datetime.fromisoformat(stage.created)
    folder: Path | None = getattr(stage, "folder", None)
    if folder is None or not folder.is_dir():
        return None
    # The times of COMPLETE and of the folder are not used, because using the output or adding files changes them.
    finished = RunFolder(folder).facts_path
    written = [finished] if finished.exists() else [path for path in folder.iterdir() if path.name != COMPLETE]
    return datetime.fromtimestamp(min(path.stat().st_mtime for path in written), UTC) if written else None
