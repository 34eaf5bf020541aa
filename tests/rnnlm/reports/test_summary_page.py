"""The values in a scheduled run's summary and message agree with a calculation by hand."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rnnlm.registry.decision_text import evidence_in_words
from rnnlm.registry.night_events import night_ended
from rnnlm.reports.summary_page import summary_report
from rnnlm.storage.records import LeftOut, RunRecord, Sample
from rnnlm.storage.result_records import (
    EvaluationRecord,
    Evidence,
    ListedVersion,
    LoggedRecord,
    MeanScore,
    RegisteredVersion,
    SamplesRecord,
    SeedScores,
    TrainedRecord,
)
from rnnlm.tracking.run_names import short_date
from tests.split_scores import split_score_of

EVIDENCE = Evidence(
    documents=60,
    lines=120,
    units=120,
    byte_count=9000,
    candidate_nats_per_byte=1.2,
    champion_nats_per_byte=1.5,
    difference=-0.3,
    lower=-0.4,
    upper=-0.2,
    confidence=0.95,
    resamples=1000,
)

BEFORE = ListedVersion(
    name="rnnlm-tickets",
    version=6,
    aliases=(),
    test_perplexity=100.0,
    validation_perplexity=90.0,
    bits_per_byte=2.0,
    dataset_id="d" * 64,
    created="",
)
CHAMPION = BEFORE.model_copy(
    update={"version": 3, "test_perplexity": 64.0, "validation_perplexity": None, "bits_per_byte": 1.6}
)


def night(folder: Path, skipped: bool = False, **registered: object) -> TrainedRecord:
    """Return the record of a nightly run with test perplexity 80, 1.5 bits per byte and version 7."""
    version = {
        "name": "rnnlm-tickets",
        "version": 7,
        "alias": "challenger",
        "reason": "worse: 1.2",
        "uri": "models:/rnnlm-tickets/7",
        "created": "2026-11-21T02:04:05+00:00",
        "url": "http://127.0.0.1:5000/#/models/rnnlm-tickets/versions/7",
        "skipped": skipped,
        **registered,
    }
    samples = tuple(Sample(prompt=f"p{number}", text=f"t_{number} .", tokens=3) for number in range(5))
    run = RunRecord(
        run_id="0123456789abcdef",
        folder=folder,
        dataset_id="d" * 64,
        mlflow_run_id="m",
        trained_tokens=5,
        best_validation_perplexity=81.0,
        seconds=61.0,
        skipped=skipped,
    )
    return TrainedRecord(
        run=run,
        evaluation=EvaluationRecord(
            scores={"valid": split_score_of(81.0, "valid"), "test": split_score_of(80.0, "test")},
            seconds=2.0,
            skipped=skipped,
        ),
        samples=SamplesRecord(samples=samples, seconds=0.5, skipped=skipped),
        registered=RegisteredVersion.model_validate(version),
        logged=LoggedRecord(
            run_url="http://127.0.0.1:5000/#/experiments/1/runs/m",
            run_list_url="http://127.0.0.1:5000/#/experiments/1/runs?view",
            loss_curve=None,
        ),
    )


def test_scores_stand_beside_the_champions_and_the_last_runs(tmp_path: Path) -> None:
    page = summary_report("tickets", "smoke", night(tmp_path, before=BEFORE, rival=CHAMPION, evidence=EVIDENCE))
    # The difference is 0.3 with the bounds 0.2 and 0.4. All three are divided by the champion's 1.5.
    better = "20.0% better (between 13.3% and 26.7% better)"
    assert page.startswith(f"## tickets · smoke: the champion stays: {better} than the champion on the same lines\n")
    waiting = night(tmp_path, evidence=EVIDENCE, reason="waits for approval (rnnlm promote): better: …")
    assert summary_report("tickets", "smoke", waiting).startswith(f"## tickets · smoke: waits for approval: {better} ")
    assert "|  | this run (version 7) | champion (version 3) | last run's (version 6) |" in page
    # The percentages are 80/64 - 1 = 0.25 and 80/100 - 1 = -0.2.
    assert "| test perplexity | 80.00 | 64.00 (+25.0%) | 100.00 (-20.0%) |" in page
    assert "| test bits per byte | 1.500 | 1.600 (-6.2%) | 2.000 (-25.0%) |" in page
    assert "| validation perplexity | 81.00 |  | 90.00 (-10.0%) |" in page  # The percentage is 81/90 - 1 = -0.1.
    assert "`rnnlm-tickets` version 7 is **challenger**: worse: 1.2" in page
    assert "| all lines | 120 | 1.2000 | 1.5000 | -20.0% | -26.7% to -13.3% |" in page
    assert page.index("### Decision") < page.index("### Scores")
    own = EVIDENCE.model_copy(update={"lines": 40, "candidate_nats_per_byte": 1.53, "difference": 0.03, "lower": 0.015})
    page = summary_report("tickets", "smoke", night(tmp_path, rival=CHAMPION, evidence=EVIDENCE, own_evidence=own))
    assert "| the champion's own | 40 | 1.5300 | 1.5000 | +2.0% | +1.0% to -13.3% |" in page
    kept = night(tmp_path, evidence=EVIDENCE, kept=3, kept_since="2026-11-19T02:00:00+00:00")
    assert "The champion has been kept for 3 nights, since 2026-11-19." in summary_report("tickets", "smoke", kept)
    assert "The champion has been kept for 3 nights, since 2026-11-19." in night_ended("tickets", kept).message


def test_scores_of_another_dataset_have_no_difference(tmp_path: Path) -> None:
    rival = CHAMPION.model_copy(update={"dataset_id": "e" * 64})
    page = summary_report("tickets", "smoke", night(tmp_path, before=BEFORE, rival=rival, evidence=EVIDENCE))
    assert "| test perplexity | 80.00 | 64.00 | 100.00 (-20.0%) |" in page
    assert "| test bits per byte | 1.500 | 1.600 | 2.000 (-25.0%) |" in page


def test_scores_of_several_seeds_have_a_table(tmp_path: Path) -> None:
    test = MeanScore(
        split="test",
        model="network",
        perplexities=(80.0, 82.0),
        mean_perplexity=81.0,
        deviation=1.41,
        margin=12.7,
        mean_bits_per_byte=1.5,
    )
    scores = SeedScores(run_ids=("a", "b"), scores=(test,))
    page = summary_report("tickets", "smoke", night(tmp_path).model_copy(update={"seeds": scores}))
    assert "| test | network | 81.00 | 12.70 | 1.41 | 80.00 | 82.00 |\n\n### Stages" in page
    assert "### Seeds" not in summary_report("tickets", "smoke", night(tmp_path))


def test_an_unchanged_night_says_since_when_and_shows_no_path(tmp_path: Path) -> None:
    made = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
    (tmp_path / "COMPLETE").touch()  # `rnnlm prune` reads the time of the last use from this file.
    (tmp_path / "evaluation.json").touch()
    (tmp_path / "run.json").touch()
    os.utime(tmp_path / "run.json", (made.timestamp(), made.timestamp()))
    record = night(tmp_path, skipped=True)
    page = summary_report("tickets", "smoke", record)
    since = short_date(datetime(2026, 11, 21, 2, 4, 5, tzinfo=UTC))
    assert page.startswith(f"## tickets · smoke: unchanged since {since}\n")
    assert f"| training | skipped: unchanged since {short_date(made)} |" in page
    assert f"| registration | skipped: unchanged since {since} |" in page
    assert str(tmp_path) not in page


def test_a_nights_message_has_scores_and_decision(tmp_path: Path) -> None:
    reason = "worse: " + evidence_in_words(EVIDENCE, 3)
    kept = night_ended(
        "tickets", night(tmp_path, rival=CHAMPION, evidence=EVIDENCE, own_evidence=EVIDENCE, reason=reason)
    )
    assert kept.message.splitlines() == [
        "rnnlm-tickets version 7 does not replace the champion: worse: 20.0% better than champion version 3, between "
        "13.3% and 26.7% better.",
        "It is 20.0% better (between 13.3% and 26.7% better) on the 120 lines that the champion itself had held out.",
        "On its own test split it has 1.500 bits per byte (perplexity 80.00).",
    ]
    assert kept.payload["promoted"] is False
    assert kept.payload["difference"] == pytest.approx(-0.2)

    files = tuple(LeftOut(name=f"{number}.json", reason="not JSON") for number in range(7))
    first = night(tmp_path, alias="champion", reason="there was no champion before it")
    assert night_ended("tickets", first, files).message.splitlines() == [
        "rnnlm-tickets version 7 is the new champion: there was no champion before it.",
        "On its own test split it has 1.500 bits per byte (perplexity 80.00).",
        "7 files were not read: 0.json: not JSON; 1.json: not JSON; 2.json: not JSON; 3.json: not JSON; "
        "4.json: not JSON; and 2 more.",
    ]
    moment = short_date(datetime(2026, 11, 21, 2, 4, 5, tzinfo=UTC))
    same = night_ended("tickets", night(tmp_path, skipped=True, rival=CHAMPION)).message.splitlines()[0]
    assert same == f"Unchanged since {moment}; rnnlm-tickets version 7 is challenger."
