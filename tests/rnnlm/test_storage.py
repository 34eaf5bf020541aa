"""Two homes share a storage, here a folder: the second takes what the first has made. tests/services has S3."""

import json
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import HomeError
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.stages import is_complete, write_once
from rnnlm.storage import VARIABLE
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.training.training_run import run_training
from tests.conftest import untracked


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty storage."""
    monkeypatch.setenv(VARIABLE, (tmp_path / "storage").as_uri())
    return tmp_path / "storage"


@pytest.fixture
def other(tmp_path: Path) -> Home:
    """The home of another machine."""
    return Home(tmp_path / "other")


def greet(partial: Path) -> None:
    (partial / "below").mkdir()
    (partial / "below" / "greeting.txt").write_text("hello")


def never(partial: Path) -> None:
    pytest.fail("made again")


def test_a_folder_is_made_once_for_all_homes(home: Home, other: Home, stored: Path) -> None:
    assert not write_once(home, home.corpora / "one", greet)
    assert write_once(other, other.corpora / "one", never)
    assert (other.corpora / "one" / "below" / "greeting.txt").read_text() == "hello"
    assert is_complete(other.corpora / "one")
    assert is_complete(stored / "corpora" / "one")
    assert not write_once(other, other.corpora / "one", greet, force=True)


def test_what_was_made_before_is_copied_when_it_is_next_used(
    home: Home, other: Home, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    write_once(home, home.datasets / "one", greet)
    monkeypatch.setenv(VARIABLE, stored.as_uri())
    assert write_once(home, home.datasets / "one", never)
    assert write_once(other, other.datasets / "one", never)


def test_only_what_is_needed_elsewhere_is_stored(home: Home, stored: Path) -> None:
    write_once(home, home.ngrams / "one", greet)
    assert not stored.exists()


@pytest.mark.parametrize("harm", ["changed", "removed", "unfinished"])
def test_a_stored_folder_that_is_damaged_is_not_used(home: Home, other: Home, stored: Path, harm: str) -> None:
    write_once(home, home.corpora / "one", greet)
    greeting, marker = stored / "corpora/one/below/greeting.txt", stored / "corpora/one/COMPLETE"
    if harm == "changed":
        greeting.write_text("hellO")
    elif harm == "removed":
        greeting.unlink()
    else:
        marker.unlink()
    assert not write_once(other, other.corpora / "one", greet)
    for made in (other.corpora / "one", stored / "corpora/one"):  # it is stored again
        assert (made / "below" / "greeting.txt").read_text() == "hello"
        assert is_complete(made)


@pytest.mark.parametrize("address", ["nonsense", "unknown://bucket/prefix"])
def test_an_address_that_is_none_is_told(home: Home, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv(VARIABLE, address)
    with pytest.raises(HomeError, match=rf"{VARIABLE}={address}(.|\n)*or unset {VARIABLE}"):
        write_once(home, home.corpora / "one", greet)


@pytest.mark.long
def test_another_machine_tokenizes_and_trains_nothing(
    other: Home,
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    stored: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stages(where: Home) -> tuple[DatasetRecord, RunRecord]:
        corpus = obtain_corpus(where, toy_config.corpus)
        tokenizer = train_tokenizer(where, corpus, toy_config.tokenizer)
        dataset = store_sequences(where, corpus, tokenizer, toy_config.sequences)
        return dataset, run_training(where, toy_config, dataset, untracked)

    dataset, run = stages(home)
    assert (dataset.dataset_id, run.run_id) == (toy_dataset.dataset_id, toy_run.run_id)
    assert is_complete(stored / "runs" / run.run_id)
    dataset, run = stages(other)
    assert (dataset.skipped, run.skipped) == (True, True)
    assert run.folder == other.runs / toy_run.run_id
    for name in ("run.json", "model/model.safetensors"):
        assert (run.folder / name).read_bytes() == (toy_run.folder / name).read_bytes()
    assert json.loads((dataset.folder / "dataset.json").read_text())["corpus_name"] == dataset.corpus_name
