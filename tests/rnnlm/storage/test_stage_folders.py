"""Missing and damaged files in the folders of stages are detected."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from rnnlm.errors import HomeError
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.stage_folders import CorpusFolder, DatasetFolder, RunFolder


def test_a_trained_run_is_read_through_its_folder(toy_run: RunRecord, toy_dataset: DatasetRecord) -> None:
    run = RunFolder(toy_run.folder)
    assert run.record() == toy_run.model_copy(update={"skipped": False, "seconds": run.record().seconds})
    assert run.record(skipped=True).skipped
    assert run.finished
    assert run.started["dataset_id"] == toy_dataset.dataset_id
    assert run.configuration["model"]["kind"] == "elman"
    assert run.history.is_file()
    assert list(run.samples.glob("step-*.md"))
    dataset = DatasetFolder(toy_dataset.folder).record()
    assert (dataset.dataset_id, dataset.predicted_tokens) == (toy_dataset.dataset_id, toy_dataset.predicted_tokens)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b'"text"', b"null", b"\xff\xfe"])
def test_a_missing_or_damaged_file_reads_as_an_empty_object(tmp_path: Path, content: bytes | None) -> None:
    run, dataset, corpus = RunFolder(tmp_path), DatasetFolder(tmp_path), CorpusFolder(tmp_path)
    names = (
        "config.json",
        "started.json",
        "tracking.json",
        "run.json",
        "evaluation.json",
        "dataset.json",
        "corpus.json",
    )
    for name in names if content is not None else ():
        (tmp_path / name).write_bytes(content or b"")
    found = (run.configuration, run.started, run.tracking, run.facts, run.test_scores, dataset.facts, corpus.facts)
    assert found == ({},) * 7
    assert not run.finished
    with pytest.raises(ValidationError):
        run.record()


def test_an_edited_evaluation_has_no_scores(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_text(json.dumps({"key": "a", "value": {"test": {"perplexity": 1.0}}}))
    assert RunFolder(tmp_path).test_scores == {}


def test_the_folder_of_a_corpus_stays_in_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert CorpusFolder.of(home, "ab" * 32).path == home.corpora / ("ab" * 8)
    with pytest.raises(HomeError):
        CorpusFolder.of(home, "../../etc/x")


def test_all_started_runs_are_found(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for name in ("one", "two", "empty"):
        (home.runs / name).mkdir(parents=True)
    for name in ("one", "two"):
        RunFolder(home.runs / name).started_path.write_text("{}")
    assert {run.path.name for run in RunFolder.all(home)} == {"one", "two"}
