"""Candidates are compared with the champion of a real registry. Only a better candidate replaces the champion."""

import hashlib
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import ModelError
from rnnlm.models.model_factory import build_model
from rnnlm.registry import champion_comparison
from rnnlm.registry.bundle import EVIDENCE
from rnnlm.registry.champion_comparison import PAIRED_LOSSES
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.night_events import registration_events
from rnnlm.registry.promotion_commands import promote_by_hand, waiting_version
from rnnlm.registry.registry_version import read_version, set_facts
from rnnlm.sequences.dataset_reader import training_counts
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.train import write_model
from tests.configs import changed
from tests.rnnlm.registry.contest import NAME, Contest, write_contest_corpus

CYRILLIC = str.maketrans("abcdefghilnorstwyxk", "абцдефгхилнорстшыжк")


def evidence_folder(home: Home, version: int, name: str = NAME) -> Path:
    return model_folder(home, f"models:/{name}/{version}").parents[1] / EVIDENCE


@pytest.mark.long
def test_a_better_candidate_takes_over_and_keeps_its_evidence(contest: Contest) -> None:
    first = contest.register("poor")
    assert (first.alias, first.evidence) == ("champion", None)
    second = contest.register("good")
    assert (second.version, second.alias) == (2, "champion")
    assert second.reason.startswith("better: ")
    assert "champion version 1" in second.reason
    evidence = second.evidence
    assert evidence is not None
    assert evidence.units == evidence.documents >= 250
    assert evidence.upper < 0

    losses = pq.read_table(evidence_folder(contest.home, 2) / PAIRED_LOSSES).to_pylist()
    assert len(losses) == 2 * (evidence.lines or 0)
    nats = {role: sum(row["total_nats"] for row in losses if row["role"] == role) for role in ("candidate", "champion")}
    assert evidence.byte_count == sum(row["byte_count"] for row in losses if row["role"] == "candidate")
    assert evidence.candidate_nats_per_byte == pytest.approx(nats["candidate"] / evidence.byte_count)
    assert evidence.champion_nats_per_byte == pytest.approx(nats["champion"] / evidence.byte_count)
    with reaching_mlflow(contest.home) as client:
        assert read_version(client, NAME, 2).facts["parent_version"] == "1"
        assert read_version(client, NAME, 1).facts["replaced_by"] == "2"
    assert contest.register("good") == second.model_copy(update={"skipped": True, "seconds": pytest.approx(0, abs=60)})


@pytest.mark.long
def test_a_worse_candidate_becomes_challenger(contest: Contest) -> None:
    contest.register("good")
    worse = contest.register("poor")
    assert (worse.alias, worse.uri) == ("challenger", f"models:/{NAME}@challenger")
    assert worse.reason.startswith("worse: ")
    assert worse.evidence is not None
    assert worse.evidence.lower > 0
    contest.register("poor", force=True)
    with reaching_mlflow(contest.home) as client:
        aliases = {alias: int(held) for alias, held in client.get_registered_model(NAME).aliases.items()}
    assert aliases == {"champion": 1, "challenger": 3}


@pytest.mark.long
def test_registering_again_reports_the_alias_of_now(contest: Contest) -> None:
    contest.register("poor")
    contest.register("good")
    dethroned = contest.register("poor")
    assert (dethroned.version, dethroned.alias, dethroned.skipped) == (1, "challenger", True)
    assert "the champion is version 2" in dethroned.reason
    # The version never had the alias challenger, so only its number identifies it.
    assert dethroned.uri == f"models:/{NAME}/1"


@pytest.mark.long
def test_an_equal_candidate_takes_over_if_it_has_read_newer_text(contest: Contest, tmp_path: Path) -> None:
    contest.register("good")
    again = contest.register("good", force=True)
    assert (again.version, again.alias) == (2, "challenger")
    assert again.reason.startswith(
        "not shown to be better, which is required because it was trained on no newer text: "
    )
    contest.read_newer_text(tmp_path / "newer")
    again = contest.register("good", policy="better")
    assert (again.version, again.alias) == (3, "challenger")
    assert again.reason.startswith("not shown to be better: ")
    again = contest.register("good", force=True)
    assert (again.version, again.alias) == (4, "champion")
    assert again.reason.startswith("newer, and at most 1% worse: ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "fair_wins", "why"),
    [
        ({}, True, "newer, and at most 90% worse: "),
        ({"promote": "by_policy"}, True, "newer, and at most 90% worse: "),
        ({"promote": "if_better"}, False, "worse: "),
        ({"promote": "never"}, False, "not promoted, because registry.promote is never: "),
        ({"approval": True}, False, "waits for approval (rnnlm promote): newer, and at most 90% worse: "),
    ],
)
def test_what_may_become_champion(
    contest: Contest, tmp_path: Path, settings: dict[str, Any], fair_wins: bool, why: str
) -> None:
    contest.register("good")
    contest.read_newer_text(tmp_path / "newer")
    fair = contest.register("fair", margin=0.9, **settings)
    assert fair.alias == ("champion" if fair_wins else "challenger")
    assert fair.reason.startswith(why)
    assert fair.evidence is not None
    if fair_wins:
        return
    second = contest.register("poor", margin=0.9, **settings)
    kept_events = [event.name for event in registration_events(second, "contest")].count("rnnlm.champion.kept")
    # A run with promote=never is not counted among the runs in which the champion was kept.
    if settings.get("promote") == "never":
        assert (fair.kept, second.kept, second.kept_since, kept_events) == (0, 0, "", 0)
        third = contest.register("poor", force=True, policy="better")
        assert third.kept == 1
        return
    assert (fair.kept, second.kept, kept_events) == (1, 2, 1)
    assert fair.kept_since == second.kept_since != ""


@pytest.mark.long
def test_the_version_that_waits_is_approved_by_the_model_s_name(contest: Contest, tmp_path: Path) -> None:
    # The first version becomes champion without approval, because it replaces no champion.
    assert contest.register("poor", approval=True).alias == "champion"
    with pytest.raises(ModelError, match="no version waits for approval"):
        waiting_version(contest.home, NAME)
    waiting = contest.register("good", approval=True)
    assert waiting.reason.startswith("waits for approval (rnnlm promote): better: ")
    event, kept = registration_events(waiting, "contest")
    assert (event.name, kept.name) == ("rnnlm.champion.waiting", "rnnlm.champion.kept")
    assert event.message.splitlines()[1] == f"To approve: rnnlm promote {NAME}/2"
    # Another challenger, which is registered later, does not wait for approval.
    contest.register("fair", force=True, promote="never")
    assert waiting_version(contest.home, NAME) == "2"
    promote_by_hand(contest.home, NAME, "2")
    with pytest.raises(ModelError, match="no version waits for approval"):
        waiting_version(contest.home, NAME)


@pytest.mark.long
def test_a_model_with_other_settings_than_the_champion_s_must_be_better(contest: Contest, tmp_path: Path) -> None:
    contest.register("good")
    contest.read_newer_text(tmp_path / "newer")
    usual = contest.config
    # The setting changes the run's id, but the weights stay the same.
    contest.config = changed(usual, {"model.hidden_size": 17})
    other = contest.register("good")
    assert other.alias == "challenger"
    assert other.reason.startswith(
        "not shown to be better, which is required because its settings differ from the champion's"
    )
    contest.config = changed(usual, {"training.checkpoints.kept": 5, "tracking.experiment": "another"})
    assert contest.register("good", force=True).alias == "champion"


@pytest.mark.long
def test_without_a_comparable_line_the_champion_stays(contest: Contest, tmp_path: Path) -> None:
    contest.register("poor")
    texts = write_contest_corpus(tmp_path / "texts")
    contest.dataset = grown(contest, tmp_path / "copies", texts | {"valid": texts["train"]})
    for kept in (1, 2):
        candidate = contest.register("good", force=True)
        assert (candidate.alias, candidate.evidence, candidate.kept) == ("challenger", None, kept)
        assert candidate.reason == (
            "not comparable with champion version 1: no held-out line of the comparison is new to both models, because "
            f"the text is very short or repeats itself; to promote it by hand: rnnlm promote {NAME}/{kept + 1}"
        )


@pytest.mark.long
def test_an_experiment_is_no_first_champion_either(contest: Contest) -> None:
    first = contest.register("good", promote="never")
    assert (first.alias, first.kept) == ("challenger", 0)
    assert first.reason == "not promoted, because registry.promote is never; there is no champion"
    assert contest.register("fair", promote="if_better").alias == "champion"


@pytest.mark.long
def test_a_loss_on_the_champion_s_own_text_waits_for_approval(contest: Contest, tmp_path: Path) -> None:
    """A candidate that is worse on the champion's own held-out text waits for approval.

    The later text has additional lines of another kind. Only the candidate knows their words, so it is better on the
    whole text.
    """
    contest.register("good")
    texts = write_contest_corpus(tmp_path / "texts")
    foreign = {split: [text.translate(CYRILLIC) for text in some] for split, some in texts.items()}
    mixed = {split: [*texts[split], *foreign[split], *foreign[split][:9]] for split in texts}
    contest.dataset = grown(contest, tmp_path / "mixed", mixed)
    untrained(contest, "fair")  # The untrained character model can spell every word, but predicts no word well.
    mixed_in = contest.register("fair")
    assert mixed_in.evidence is not None
    assert mixed_in.own_evidence is not None
    assert mixed_in.evidence.difference < 0 < mixed_in.own_evidence.difference
    assert mixed_in.own_evidence.byte_count < 0.6 * mixed_in.evidence.byte_count
    assert mixed_in.alias == "challenger"
    assert mixed_in.reason.startswith("waits for approval (rnnlm promote), because on the text that champion version 1")
    assert "; on all lines of this comparison: better: " in mixed_in.reason


@pytest.mark.long
def test_small_losses_do_not_add_up(contest: Contest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A candidate within the margin of the champion is refused if it is too much worse than the best recent champion.

    Each loss is within the margin of the previous loss, but the third loss exceeds the best loss by more than the
    margin.
    """
    losses = {}
    contest.register("good")
    contest.read_newer_text(tmp_path / "newer")
    for quality in ("fair", "poor"):
        evidence = contest.register(quality, force=True, policy="better").evidence
        assert evidence is not None
        losses[quality] = evidence.candidate_nats_per_byte
        best = evidence.champion_nats_per_byte
    margin = 1.05 * max(losses["fair"] / best - 1, losses["poor"] / losses["fair"] - 1) + 0.05
    # The third model is refused, because its loss exceeds the best loss by more than the margin.
    assert margin < losses["poor"] / best - 1
    assert contest.register("fair", force=True, margin=margin).alias == "champion"
    contest.read_newer_text(tmp_path / "newest")
    poor = contest.register("poor", force=True, margin=margin)
    assert poor.alias == "challenger"
    assert "the best champion of the month, version 1" in poor.reason
    # This limit makes the best champion too old for a comparison.
    monkeypatch.setattr(champion_comparison, "BEST_WITHIN", timedelta(0))
    assert contest.register("poor", force=True, margin=margin).alias == "champion"


def grown(contest: Contest, folder: Path, texts: dict[str, list[str]]) -> DatasetRecord:
    """Return the dataset of a later state of the corpus. It has another vocabulary and the given texts by split."""
    folder.mkdir()
    for split, paragraphs in texts.items():
        (folder / f"{split}.txt").write_text("".join(paragraphs), encoding="utf-8")
    config = contest.config.corpus.model_copy(update={"source": str(folder)})
    corpus = obtain_corpus(contest.home, config)
    tokenizer = train_tokenizer(contest.home, corpus, TokenizerConfig(kind="char", vocabulary_size=64))
    return store_sequences(contest.home, corpus, tokenizer, contest.config.sequences)


def untrained(contest: Contest, quality: str) -> None:
    """Replace the run's model with an untrained model that has the vocabulary of the contest's dataset."""
    run = contest.run_of(quality)
    shutil.rmtree(run.model_folder)
    counts = training_counts(contest.dataset)
    write_model(build_model(contest.config.model, len(counts), seed=0), run.model_folder, contest.dataset)


@pytest.mark.slow
def test_a_grown_corpus_is_compared_without_what_either_was_trained_on(contest: Contest, tmp_path: Path) -> None:
    old, new = (write_contest_corpus(tmp_path / str(seed), seed) for seed in (0, 1))
    contest.register("good")
    # The comparison does not need the champion's dataset, which may be on another machine.
    shutil.rmtree(contest.dataset.folder)
    texts = {"train": new["train"], "valid": [*old["train"], *new["valid"]], "test": new["test"]}
    contest.dataset = grown(contest, tmp_path / "grown", texts)
    untrained(contest, "fair")
    candidate = contest.register("fair")
    assert candidate.alias == "challenger"  # An untrained character model is worse than the champion.
    assert "training text is unknown" not in candidate.reason
    assert candidate.evidence is not None
    unseen = set(texts["valid"]) - set(old["train"]) - set(new["train"])
    # The other documents are left out, because both of their lines may be assigned to model selection.
    assert 0.6 * len(unseen) < candidate.evidence.documents < 0.9 * len(unseen)
    scored = {row["sha256"] for row in pq.read_table(evidence_folder(contest.home, 2) / PAIRED_LOSSES).to_pylist()}
    assert scored < {hashlib.sha256(text.encode()).hexdigest() for text in unseen}


@pytest.mark.slow
def test_cleaning_does_not_hide_what_the_champion_was_trained_on(contest: Contest, tmp_path: Path) -> None:
    """The champion's training text is recognized in a candidate's validation split, even if cleaning has changed it.

    The candidate's text is the champion's text in capitals.
    """
    contest.register("good")
    texts = write_contest_corpus(tmp_path / "texts")
    loud = {split: [text.upper() for text in paragraphs] for split, paragraphs in texts.items()}
    loud["valid"] = [*(text.upper() for text in texts["train"]), *loud["valid"]]
    contest.dataset = grown(contest, tmp_path / "loud", loud)
    untrained(contest, "fair")
    contest.register("fair")
    scored = {row["sha256"] for row in pq.read_table(evidence_folder(contest.home, 2) / PAIRED_LOSSES).to_pylist()}
    assert not scored & {hashlib.sha256(text.upper().encode()).hexdigest() for text in texts["train"]}
    assert scored


@pytest.mark.parametrize(
    ("digits", "digests", "refused"),
    [
        ("N", "letters and lines", True),
        ("###", "letters and lines", False),
        ("###", "letters", False),
        ("###", "bytes", True),
    ],
)
@pytest.mark.slow
def test_cleaning_that_hides_text_is_no_comparison(contest: Contest, digits: str, digests: str, refused: bool) -> None:
    contest.register("poor")
    with reaching_mlflow(contest.home) as client:
        set_facts(client, NAME, 1, {"document_digests": digests})
    corpus = contest.config.corpus.model_copy(update={"digits": digits})
    contest.config = contest.config.model_copy(update={"corpus": corpus})
    candidate = contest.register("good")
    assert ("corpus.digits differs, so it is unknown" in candidate.reason) == refused
    assert (candidate.evidence is None) == refused


@pytest.mark.slow
def test_each_comparison_with_a_champion_has_a_smaller_chance_of_error(contest: Contest) -> None:
    contest.register("good")
    found = [contest.register("fair", force=True, policy="better").evidence for _ in range(3)]
    assert [one.comparison for one in found if one] == [1, 2, 3]
    assert [one.confidence for one in found if one] == pytest.approx([1 - 0.05 / 2, 1 - 0.05 / 6, 1 - 0.05 / 12])


@pytest.mark.slow
def test_a_champion_without_kept_documents_is_compared_and_the_reason_says_so(contest: Contest, tmp_path: Path) -> None:
    contest.register("poor")
    with reaching_mlflow(contest.home) as client:
        set_facts(client, NAME, 1, {"training_documents": None})
    # Both models have the same dataset, so the champion's training documents are known.
    same = contest.register("fair")
    assert (same.alias, "training text is unknown" in same.reason) == ("champion", False)
    with reaching_mlflow(contest.home) as client:
        set_facts(client, NAME, 2, {"training_documents": None})
        client.set_model_version_tag(NAME, "2", "dataset_id", "another")
    better = contest.register("good")
    assert better.alias == "champion"
    assert "champion version 2's training text is unknown" in better.reason


@pytest.mark.slow
def test_a_champion_that_cannot_be_loaded_stays(contest: Contest) -> None:
    contest.register("poor")
    shutil.rmtree(model_folder(contest.home, f"models:/{NAME}/1"))
    candidate = contest.register("good")
    assert (candidate.alias, candidate.evidence) == ("challenger", None)
    assert "not comparable with champion version 1: its model cannot be loaded" in candidate.reason
    assert len(candidate.reason.splitlines()) == 1
