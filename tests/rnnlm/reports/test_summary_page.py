"""The summary of a night and its message, on records whose figures are computed by hand."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rnnlm.display.text_layout import markdown_text
from rnnlm.registry.model_card import comparison_with
from rnnlm.registry.night_events import night_ended
from rnnlm.reports.pipeline_page import samples_text
from rnnlm.reports.summary_page import summary_report
from rnnlm.storage.records import LeftOut, RunRecord, Sample
from rnnlm.storage.result_records import (
    EvaluationRecord,
    Evidence,
    ListedVersion,
    LoggedRecord,
    RegisteredVersion,
    SamplesRecord,
    TrainedRecord,
)
from rnnlm.tracking.run_names import short_date
from tests.split_scores import split_score_of

EVIDENCE = Evidence(
    documents=300,
    units=300,
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
    dataset_id="",
    created="",
)
CHAMPION = BEFORE.model_copy(
    update={"version": 3, "test_perplexity": 64.0, "validation_perplexity": None, "bits_per_byte": 1.6}
)


def night(folder: Path, skipped: bool = False, **registered: object) -> TrainedRecord:
    """Test perplexity 80, bits per byte 1.5, version 7."""
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
    assert page.startswith("## tickets · smoke: the champion stays, test perplexity 80.00, 1.500 bits per byte")
    assert "|  | this run (version 7) | champion (version 3) | last run's (version 6) |" in page
    assert "| test perplexity | 80.00 | 64.00 (+25.0%) | 100.00 (-20.0%) |" in page  # 80/64 = 1.25, 80/100 = 0.8
    assert "| test bits per byte | 1.500 | 1.600 (-6.2%) | 2.000 (-25.0%) |" in page
    assert "| validation perplexity | 81.00 |  | 90.00 (-10.0%) |" in page  # 81/90 = 0.9
    assert "`rnnlm-tickets` version 7 is **challenger**: worse: 1.2" in page
    assert "| difference | -0.3000 |" in page


def test_the_decision_leaves_its_figures_to_the_table(tmp_path: Path) -> None:
    few = "only 4 documents to compare on, fewer than 200 (registry.minimum_units)"
    reasons = {
        "better: 1.2000 nats per byte against 1.5 of champion version 3": "better",
        f"{few}: 1.2000 nats per byte against 1.5 of champion version 3": few,
        "there was no champion before it": "there was no champion before it",
    }
    for reason, shown in reasons.items():
        page = summary_report("tickets", "smoke", night(tmp_path, reason=reason, evidence=EVIDENCE))
        assert f"is **challenger**: {markdown_text(shown)}\n\n### Candidate against champion" in page
    moved = (
        "challenger now, champion when registered (better: 1.2 nats per byte against 1.5); the champion is version 9"
    )
    page = summary_report("tickets", "smoke", night(tmp_path, reason=moved, evidence=EVIDENCE))
    assert markdown_text(moved) in page


def test_a_new_champion_stands_beside_the_one_that_it_replaced_once(tmp_path: Path) -> None:
    page = summary_report("tickets", "smoke", night(tmp_path, alias="champion", before=BEFORE, rival=BEFORE))
    assert page.startswith("## tickets · smoke: new champion, ")
    assert "|  | this run (version 7) | champion before (version 6) |\n" in page


def test_three_samples_the_time_of_each_stage_and_links(tmp_path: Path) -> None:
    page = summary_report("tickets", "smoke", night(tmp_path))
    assert [f"**p{number}** t\\_{number} ." in page for number in range(5)] == [True, True, True, False, False]
    assert "| training | done | 61.0 s |" in page
    assert "| **together** |  | **63.5 s** |" in page
    assert "(http://127.0.0.1:5000/#/experiments/1/runs/m)" in page
    assert "(http://127.0.0.1:5000/#/experiments/1/runs?view)" in page
    assert "(http://127.0.0.1:5000/#/models/rnnlm-tickets/versions/7)" in page
    assert "(/artifacts/key/tickets-summary)" in page


def test_an_unchanged_night_says_since_when_and_shows_no_path(tmp_path: Path) -> None:
    made = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
    (tmp_path / "COMPLETE").touch()  # just now: prune reads from it when an output was last used
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


@pytest.mark.parametrize(("alias", "skipped", "promoted"), [("champion", False, True), ("champion", True, False)])
def test_only_the_night_of_the_promotion_is_tagged(tmp_path: Path, alias: str, skipped: bool, promoted: bool) -> None:
    assert night(tmp_path, skipped=skipped, alias=alias).is_promoted is promoted


def test_a_versions_page_compares_it_with_its_parent(tmp_path: Path) -> None:
    page = comparison_with(CHAMPION, night(tmp_path).evaluation, EVIDENCE)
    assert page.startswith("## Beside version 3\n")
    assert "| test perplexity | 80.00 | 64.00 | +25.0% |" in page
    assert "| validation perplexity | 81.00 |  |  |" in page
    assert "| nats per byte, 300 documents new to both | 1.2000 | 1.5000 | -20.0% |" in page


def test_a_nights_message_has_scores_and_decision(tmp_path: Path) -> None:
    kept = night_ended("tickets", night(tmp_path, rival=CHAMPION, evidence=EVIDENCE, reason="worse: 1.2 nats per byte"))
    assert kept.message.splitlines() == [
        # 1.5 / 1.6 = 0.9375
        "1.500 bits per byte of the test split (perplexity 80.00), -6.2% against the champion, version 3 (1.600).",
        "rnnlm-tickets version 7 does not replace the champion: worse: 1.2 nats per byte.",
    ]
    assert (kept.payload["promoted"], kept.payload["champion_bits_per_byte"]) == (False, 1.6)

    files = tuple(LeftOut(name=f"{number}.json", reason="not JSON") for number in range(7))
    first = night(tmp_path, alias="champion", reason="there was no champion before it")
    assert night_ended("tickets", first, files).message.splitlines() == [
        "1.500 bits per byte of the test split (perplexity 80.00).",
        "rnnlm-tickets version 7 is the new champion: there was no champion before it.",
        "7 files were not read: 0.json: not JSON; 1.json: not JSON; 2.json: not JSON; 3.json: not JSON; "
        "4.json: not JSON; and 2 more.",
    ]
    moment = short_date(datetime(2026, 11, 21, 2, 4, 5, tzinfo=UTC))
    same = night_ended("tickets", night(tmp_path, skipped=True, rival=CHAMPION)).message.splitlines()[1]
    assert same == f"Unchanged since {moment}; rnnlm-tickets version 7 is challenger."


def test_the_bar_in_samples_is_explained_where_it_stands() -> None:
    prompted = SamplesRecord(samples=(Sample(prompt="the", text=" cat", whole="the cat", tokens=1),), seconds=0.0)
    title, line = samples_text(prompted)
    assert title == "samples, with | between the prompt and what the model wrote"
    assert line == "  the | cat"
    unprompted = SamplesRecord(samples=(Sample(prompt="", text="a cat", whole="a cat", tokens=2),), seconds=0.0)
    assert samples_text(unprompted) == ["samples", "  a cat"]
