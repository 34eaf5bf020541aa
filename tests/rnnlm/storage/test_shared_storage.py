"""Two rnnlm homes use a folder as shared storage. The second home reads the files of the first from it.

tests/services contains the tests with S3.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import HomeError
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.shared_storage import VARIABLE, Storage, find_storage
from rnnlm.storage.stages import copy_to_storage, is_complete, write_once
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.training.training_run import run_training
from tests.conftest import untracked


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty shared storage."""
    monkeypatch.setenv(VARIABLE, (tmp_path / "storage").as_uri())
    return tmp_path / "storage"


@pytest.fixture
def other(tmp_path: Path) -> Home:
    """Return the rnnlm home of another machine."""
    return Home(tmp_path / "other")


def greet(partial: Path) -> None:
    (partial / "below").mkdir()
    (partial / "below" / "greeting.txt").write_text("hello")


def stored_file(stored: Path, name: str) -> Path:
    """Return the path of a file of the only corpus in the shared storage."""
    (path,) = stored.glob(f"corpora/*/*/{name}")
    return path


def never(partial: Path) -> None:
    pytest.fail("made again")


def test_a_folder_is_made_once_for_all_homes(home: Home, other: Home, stored: Path) -> None:
    assert not write_once(home, home.corpora / "one", greet)
    assert write_once(other, other.corpora / "one", never)
    assert (other.corpora / "one" / "below" / "greeting.txt").read_text() == "hello"
    assert is_complete(other.corpora / "one")
    assert stored_file(stored, "below/greeting.txt").read_text() == "hello"
    assert not write_once(other, other.corpora / "one", greet, force=True)


def test_what_was_made_before_is_copied_when_it_is_next_used(
    home: Home, other: Home, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    write_once(home, home.datasets / "one", greet)
    monkeypatch.setenv(VARIABLE, stored.as_uri())
    assert write_once(home, home.datasets / "one", never)
    assert write_once(other, other.datasets / "one", never)


@pytest.mark.parametrize("harm", ["changed", "removed", "unfinished"])
def test_a_stored_folder_that_is_damaged_is_not_used(home: Home, other: Home, stored: Path, harm: str) -> None:
    write_once(home, home.corpora / "one", greet)
    greeting, marker = stored_file(stored, "below/greeting.txt"), stored / "corpora/one/COMPLETE"
    if harm == "changed":
        greeting.write_text("hellO")
    elif harm == "removed":
        greeting.unlink()
    else:
        marker.unlink()
    assert not write_once(other, other.corpora / "one", greet)
    # If either file is lost, the corpus is stored again.
    for made in (other.corpora / "one" / "below" / "greeting.txt", greeting):
        assert made.read_text() == "hello"
    assert is_complete(other.corpora / "one")
    assert marker.exists()


def test_two_machines_storing_a_folder_do_not_mix_files(
    home: Home, other: Home, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of two machines are not mixed if both machines store the same folder at the same time.

    This may happen if two machines train the same run, and the files of both runs differ.
    """

    def build(text: str) -> Callable[[Path], None]:
        def write(partial: Path) -> None:
            for name in ("a", "b"):
                (partial / name).write_text(text)

        return write

    monkeypatch.delenv(VARIABLE)
    for where, text in ((home, "one"), (other, "two")):
        write_once(where, where.runs / "same", build(text))
    monkeypatch.setenv(VARIABLE, stored.as_uri())
    copy, waiting = Storage.copy, [other.runs / "same"]

    def copy_and_be_overtaken(storage: Storage, name: str, local: Path, *, to_storage: bool) -> None:
        copy(storage, name, local, to_storage=to_storage)
        if waiting:
            storage.store("runs/same", waiting.pop())

    monkeypatch.setattr(Storage, "copy", copy_and_be_overtaken)
    copy_to_storage(home.runs / "same")
    third = Home(other.root.parent / "third")
    assert write_once(third, third.runs / "same", never)
    assert [(third.runs / "same" / name).read_text() for name in ("a", "b")] == ["one", "one"]


def test_a_file_on_another_disk_is_stored_with_the_rest(home: Home, other: Home, stored: Path, tmp_path: Path) -> None:
    """A file that is a link to another disk is stored together with the other files of its folder.

    A user may have moved a large file of the rnnlm home to a larger disk.
    """
    greeting = home.corpora / "one" / "below" / "greeting.txt"
    write_once(home, home.corpora / "one", greet)
    shutil.rmtree(stored)
    shutil.move(greeting, tmp_path / "larger.txt")
    greeting.symlink_to(tmp_path / "larger.txt")
    copy_to_storage(home.corpora / "one")
    assert write_once(other, other.corpora / "one", never)
    assert (other.corpora / "one" / "below" / "greeting.txt").read_text() == "hello"


def test_a_damaged_folder_is_forgotten_by_two_machines(home: Home, stored: Path) -> None:
    write_once(home, home.corpora / "one", greet)
    storage = find_storage()
    assert storage is not None
    place = "corpora/one"
    assert storage.holds(place)
    for _ in range(2):
        storage.forget(place)
    assert not storage.holds(place)


@pytest.mark.parametrize("address", ["nonsense", "unknown://bucket/prefix"])
def test_a_wrong_address_is_named_in_the_error(home: Home, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
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
    assert (stored / "runs" / run.run_id / "COMPLETE").exists()
    dataset, run = stages(other)
    assert (dataset.skipped, run.skipped) == (True, True)
    assert run.folder == other.runs / toy_run.run_id
    for name in ("run.json", "model/model.safetensors"):
        assert (run.folder / name).read_bytes() == (toy_run.folder / name).read_bytes()
    assert json.loads((dataset.folder / "dataset.json").read_text())["corpus_name"] == dataset.corpus_name
