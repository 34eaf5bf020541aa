"""A run starts from the configured model. Both models' training documents matter when the new model is compared."""

import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.config import ModelConfig
from rnnlm.corpora.line_digests import chooses, line_digest
from rnnlm.corpora.splits import text_fingerprint
from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.seen_text import write_seen_text
from rnnlm.registry.bundle import TRAINING_DOCUMENTS, model_digest
from rnnlm.registry.lineage import show_version
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.registry_version import read_version
from rnnlm.registry.starting_model import choose_start
from rnnlm.reports.pipeline_page import training_report
from rnnlm.reports.registry_page import lineage_report
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord, StartedFrom
from rnnlm.storage.result_records import RegisteredVersion
from rnnlm.storage.stage_folders import ANCESTOR_DOCUMENTS
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training.training_run import run_training
from rnnlm.training.warm_start import start_folder
from tests.configs import changed
from tests.conftest import untracked
from tests.registrar import Registrar
from tests.rnnlm.registry.contest import NAME, Contest, write_contest_corpus
from tests.rnnlm.registry.test_champion_comparison import evidence_folder

TOY = "rnnlm-toy"
WARM = {"training.start_from": "champion", "training.warm_start.learning_rate": 1e-3}


@pytest.fixture
def warm(registered: Registrar) -> Registrar:
    """Return the object that registers the toy run, which is the champion from which the next run starts."""
    registered.config = changed(registered.config, WARM)
    return registered


def chosen(warm: Registrar, *, force: bool = False) -> StartedFrom | None:
    return choose_start(warm.home, warm.config, warm.dataset, force=force)


def take_over(warm: Registrar, name: str = TOY) -> RegisteredVersion:
    """Make another version the champion."""
    settings = {"training.seed": 7, "training.start_from": "nothing"}
    run = run_training(warm.home, changed(warm.config, settings), warm.dataset, untracked)
    registered = warm(force=True, run=run)
    with reaching_mlflow(warm.home) as client:
        client.set_registered_model_alias(name, "champion", str(registered.version))
    return registered


@pytest.mark.long
def test_a_start_does_not_depend_on_the_working_folder(
    warm: Registrar, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(toy_folder.parent)
    warm.config = changed(warm.config, {"corpus.source": toy_folder.name})
    there = chosen(warm)
    here = tmp_path / "here" / toy_folder.name
    here.mkdir(parents=True)
    (here / "train.txt").write_text("quite another text\n" * 99, encoding="utf-8")
    monkeypatch.chdir(here.parent)
    assert chosen(warm) == there
    assert chosen(warm, force=True) == there
    monkeypatch.chdir("/")  # In this folder, the relative path of the text names no file.
    assert chosen(warm, force=True) == there
    assert there is not None


def test_the_champion_is_found_and_copied_with_what_it_has_seen(
    warm: Registrar, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    start = chosen(warm)
    rows = warm.dataset.vocabulary_size
    digest = model_digest(warm.run.model_folder)
    assert start == StartedFrom(name=TOY, version=1, model_sha256=digest, token_rows_kept=rows, token_rows=rows)
    assert f"training: starts from rnnlm-toy version 1: {rows} of {rows} token rows kept" in caplog.messages
    kept = start_folder(warm.home, start) / ANCESTOR_DOCUMENTS
    documents = model_folder(warm.home, f"models:/{TOY}/1").parents[1] / "evidence" / TRAINING_DOCUMENTS
    assert pq.read_table(kept).equals(pq.read_table(documents))


@pytest.mark.long
def test_an_unchanged_night_finds_its_run_although_the_champion_has_changed(warm: Registrar) -> None:
    first = chosen(warm)
    run = run_training(warm.home, warm.config, warm.dataset, untracked, start=first)
    second = take_over(warm)
    again = chosen(warm)
    assert again == first
    assert run_training(warm.home, warm.config, warm.dataset, untracked, start=again).skipped
    forced = chosen(warm, force=True)
    assert forced is not None
    assert forced.version == second.version
    assert chosen(warm) == forced  # The new choice has replaced the stored one.
    assert run.run_id != run_training(warm.home, warm.config, warm.dataset, untracked, start=forced).run_id


@pytest.mark.long
def test_a_remembered_decision_needs_neither_mlflow_nor_the_version(warm: Registrar) -> None:
    start = chosen(warm)
    shutil.rmtree(warm.home.artifacts)
    warm.home.mlflow_database.unlink()
    assert chosen(warm) == start
    assert run_training(warm.home, warm.config, warm.dataset, untracked, start=start).started_from == start


@pytest.mark.long
def test_without_a_champion_training_starts_from_random_weights_and_that_is_remembered(
    register: Registrar, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    register.config = changed(register.config, WARM)
    assert chosen(register) is None
    assert "training: starts from random weights, because rnnlm-toy has no champion yet" in caplog.messages
    run = run_training(register.home, register.config, register.dataset, untracked, start=None)
    assert run.skipped  # The settings are equivalent to start_from=nothing, so the finished run is found.
    register()
    # A second run with the same text also starts from random weights, although there is a champion now.
    assert chosen(register) is None


def test_nothing_is_asked_of_the_registry_unless_the_setting_is_set(register: Registrar, home: Home) -> None:
    home.mlflow_database.unlink()
    assert chosen(register) is None
    assert not home.mlflow_database.exists()
    assert not home.starts.exists()


@pytest.mark.parametrize("wanted", ["models:/rnnlm-toy/1", "rnnlm-toy/1", "rnnlm-toy", "rnnlm-toy@champion"])
def test_a_version_is_found_by_any_of_its_names(warm: Registrar, wanted: str) -> None:
    warm.config = changed(warm.config, {"training.start_from": wanted})
    start = chosen(warm)
    assert start is not None
    assert (start.name, start.version) == (TOY, 1)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("models:/rnnlm-toy/9", "no such version in the registry"),
        ("rnnlm-unknown", "rnnlm-unknown: expected models:/NAME@ALIAS"),
        (".", "expected models:/NAME@ALIAS"),
    ],
)
def test_a_version_that_does_not_exist_is_an_error(warm: Registrar, wanted: str, told: str) -> None:
    warm.config = changed(warm.config, {"training.start_from": wanted})
    with pytest.raises(ModelError, match=told):
        chosen(warm)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model.hidden_size": 8}, "model.hidden_size differs (hidden_size is 8 and was 16)"),
        ({"corpus.digits": "N"}, "corpus.digits differs, so it is unknown which documents"),
    ],
)
def test_a_champion_that_does_not_fit_is_reported_in_one_line(
    warm: Registrar, caplog: pytest.LogCaptureFixture, settings: dict[str, object], told: str
) -> None:
    caplog.set_level(logging.INFO)
    warm.config = changed(warm.config, settings)
    assert chosen(warm) is None
    (line,) = [message for message in caplog.messages if message.startswith("training: ")]
    assert line.startswith(f"training: starts from random weights, because rnnlm-toy version 1 does not fit: {told}")


@pytest.mark.parametrize("made_by", ["rnnlm", "another program"])
def test_a_champion_that_cannot_be_loaded_does_not_stop_the_night(
    warm: Registrar, caplog: pytest.LogCaptureFixture, made_by: str
) -> None:
    caplog.set_level(logging.INFO)
    folder = model_folder(warm.home, f"models:/{TOY}/1")
    if made_by == "rnnlm":
        shutil.rmtree(folder)
    else:
        (folder / "rnnlm_tokenizer.json").unlink()
        (folder.parents[1] / "COMPLETE").unlink()
    assert chosen(warm) is None
    assert "training: starts from random weights, because the champion cannot be loaded (" in caplog.text
    warm.config = changed(warm.config, {"training.start_from": f"{TOY}/1"})
    with pytest.raises(ModelError):
        chosen(warm)


def test_an_unavailable_server_does_not_stop_the_night(
    register: Registrar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    register.config = changed(register.config, WARM)
    assert chosen(register) is None
    assert "training: starts from random weights, because MLflow is unavailable (" in caplog.text


def warm_run(contest: Contest, quality: str, ancestors: list[str] | None) -> RunRecord:
    """Return a run that started from version 1.

    `ancestors` are the fingerprints of the documents that this version was trained on, or None if they are unknown.
    """
    run = contest.run_of(quality)
    if ancestors is not None:
        pq.write_table(pa.table({"sha256": ancestors}), run.folder / ANCESTOR_DOCUMENTS)
    start = StartedFrom(name=NAME, version=1, model_sha256="0" * 64, token_rows_kept=7_912, token_rows=8_000)
    return run.model_copy(update={"started_from": start})


def unseen_fingerprints(contest: Contest, folder: Path) -> list[str]:
    """Return the fingerprints of validation documents that a run on the contest's dataset was not trained on."""
    write_seen_text(contest.dataset, folder / "own.parquet")
    seen = set(pq.read_table(folder / "own.parquet")["sha256"].to_pylist())
    with connect(contest.dataset) as connection:
        rows = connection.execute("select distinct fingerprint from documents where split = 'valid'").fetchall()
    return sorted(fingerprint for (fingerprint,) in rows if fingerprint[:16] not in seen)


@pytest.mark.long
def test_documents_that_an_ancestor_has_seen_are_no_evidence(contest: Contest, tmp_path: Path) -> None:
    unseen = unseen_fingerprints(contest, tmp_path)
    contest.register("poor")
    candidate = contest(run=warm_run(contest, "good", unseen[:40]))
    assert candidate.evidence is not None
    valid = {text_fingerprint(text.encode()): text for text in write_contest_corpus(tmp_path / "texts")["valid"]}
    texts = [valid[fingerprint].split("\n") for fingerprint in unseen[40:]]
    compared = [lines for lines in texts if not all(chooses(line_digest(line.encode())) for line in lines if line)]
    assert candidate.evidence.documents == len(compared) > 200
    assert candidate.alias == "champion"
    # The candidate's file also lists the texts of its initial model, because later models may start from the candidate.
    known = pq.read_table(evidence_folder(contest.home, 2) / TRAINING_DOCUMENTS)["sha256"].to_pylist()
    own = pq.read_table(tmp_path / "own.parquet", filters=[("is_line", "=", False)])["sha256"].to_pylist()
    assert sorted(known) == sorted({*own, *(fingerprint[:16] for fingerprint in unseen[:40])})
    documents = {text_fingerprint(text.encode()) for text in write_contest_corpus(tmp_path / "texts")["train"]}
    documents |= set(unseen[:40])
    with reaching_mlflow(contest.home) as client:
        tags = read_version(client, NAME, 2).facts
    assert (tags["started_from"], tags["training_documents"]) == (f"{NAME}/1", str(len(documents)))
    next_one = contest.register("good", force=True)
    assert next_one.evidence is not None
    assert next_one.evidence.documents == len(compared)


@pytest.mark.long
def test_a_candidate_whose_ancestor_is_unknown_cannot_win(contest: Contest) -> None:
    contest.register("poor")
    candidate = contest(run=warm_run(contest, "good", None))
    assert (candidate.alias, candidate.evidence) == ("challenger", None)
    assert candidate.reason == (
        "not comparable with champion version 1: it is unknown on which text the candidate's initial model was "
        f"trained; to promote it by hand: rnnlm promote {NAME}/2"
    )
    with reaching_mlflow(contest.home) as client:
        # The training documents of version 2 are unknown, too.
        assert "training_documents" not in read_version(client, NAME, 2).facts
    assert not (evidence_folder(contest.home, 2) / TRAINING_DOCUMENTS).exists()


@pytest.mark.long
def test_card_and_reports_name_the_version_that_training_started_from(contest: Contest) -> None:
    run = warm_run(contest, "good", [])
    contest(run=run)
    details = show_version(contest.home, NAME, "1")
    started = "rnnlm-contest version 1: 7,912 of 8,000 token rows kept"
    assert f"- training continued from {started}\n" in details.description
    assert "\nstarted    from rnnlm-contest/1\n" in lineage_report(details)
    training = changed(contest.config, {"training.warm_start.epochs": 9}).training
    report = training_report(run, ModelConfig(), training)
    assert f"| started from | {started} |" in report
    assert "| epochs | 9 |" in report
