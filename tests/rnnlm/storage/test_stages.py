"""Tests of stages: each output is hashed once, JSON results hold a digest, and a full disk causes one clear error."""

import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, EvaluationConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import HomeError
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.extensions.upkeep.backup import files_below
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home, file_digest
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.storage.shared_storage import read_marker
from rnnlm.storage.stages import COMPLETE, find_damage, find_new_damage, forget_verified, mark_complete, write_once
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tests.rnnlm.storage.small_disk import small_disk

__all__ = ["small_disk"]


def test_an_edited_evaluation_is_measured_again(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    path = toy_run.folder / "evaluation.json"
    kept = json.loads(path.read_text())
    kept["value"]["test"]["perplexity"] = 1.01
    path.write_text(json.dumps(kept))
    again = evaluate_run(home, toy_dataset, toy_run, EvaluationConfig())
    assert (again.skipped, again.scores) == (False, toy_evaluation.scores)
    assert evaluate_run(home, toy_dataset, toy_run, EvaluationConfig()).skipped


def test_a_result_is_made_once_for_a_key(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert write_json_once(home, path, "a", lambda: {"x": (1, 2)}) == ({"x": [1, 2]}, False)
    assert write_json_once(home, path, "a", lambda: pytest.fail("made twice")) == ({"x": [1, 2]}, True)
    assert write_json_once(home, path, "b", lambda: 3) == (3, False)


COMPILED = (
    "a.pyc",
    "__pycache__/b.cpython-311.pyc",
    "code/__pycache__/c.cpython-313.opt-2.pyc",
    "__pycache__/d.pyc.139",
)


def test_what_python_compiles_beside_our_modules_is_not_ours(tmp_path: Path) -> None:
    for name in ("code/c.py", "b.py", *COMPILED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    mark_complete(tmp_path)
    assert set(read_marker(tmp_path)) == {"code/c.py", "b.py"}
    assert set(json.loads((tmp_path / COMPLETE).read_text())) == {"code/c.py", "b.py"}
    older = {name: file_digest(tmp_path / name) for name in ("code/c.py", "b.py", *COMPILED)}
    # Markers of rnnlm 0.3 have this format. They also list compiled modules.
    (tmp_path / COMPLETE).write_text(json.dumps(older))
    (tmp_path / COMPILED[0]).write_text("compiled again after a restore")
    (tmp_path / COMPILED[1]).unlink()
    assert find_damage(tmp_path) is None
    assert [digest for file, digest in files_below(tmp_path) if digest is not None] == [
        older["b.py"],
        older["code/c.py"],
    ]
    (tmp_path / "b.py").write_text("changed")
    assert find_damage(tmp_path) == "b.py differs from its sha256"


def test_finished_pieces_stay_until_the_output_is_complete(home: Home) -> None:
    pieces, final = home.shards / "0123", home.tokenizers / "0123"
    found: list[list[str]] = []

    def build(partial: Path) -> None:
        pieces.mkdir(parents=True, exist_ok=True)
        found.append([path.name for path in pieces.iterdir()])
        (pieces / f"{len(found)}").touch()
        (partial / "output").touch()
        if len(found) == 1:
            raise OSError("the network is unavailable")

    with pytest.raises(OSError, match="the network is unavailable"):
        write_once(home, final, build, pieces=pieces)
    assert not write_once(home, final, build, pieces=pieces)
    assert not pieces.exists()
    pieces.mkdir()  # A run leaves such a folder if it is killed after it has created its output.
    assert write_once(home, final, build, pieces=pieces)
    assert not pieces.exists()
    pieces.mkdir()
    (pieces / "old").touch()
    assert not write_once(home, final, build, pieces=pieces, force=True)
    assert found == [[], ["1"], []]


@pytest.mark.long
def test_pieces_that_another_process_works_on_are_left(home: Home) -> None:
    pieces, final = home.shards / "0123", home.tokenizers / "0123"
    write_once(home, final, lambda partial: (partial / "output").touch())
    pieces.mkdir(parents=True)
    with home.lock("tokenizers-0123"):  # A process that creates the output again (--force) holds this lock.
        other = threading.Thread(target=write_once, args=(home, final, Path.touch), kwargs={"pieces": pieces})
        other.start()
        other.join(1)  # A process without the lock would remove an empty folder within this second.
        assert pieces.exists()
        assert other.is_alive()
    other.join(60)
    assert not pieces.exists()


def fill(folder: Path, room: int) -> None:
    """Fill the disk until only `room` bytes are free on it."""
    with (folder / "filling").open("wb", buffering=0) as stream:
        with suppress(OSError):
            while stream.write(bytes(4096)) == 4096:
                pass
        stream.truncate(max(0, stream.tell() - room))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "room"), [("corpus", 200_000), *(("sequences", room) for room in (0, 100_000, 600_000, 1_200_000))]
)
def test_a_full_disk_is_one_clear_message(small_disk: Path, tmp_path: Path, stage: str, room: int) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"sentence {number} of a text about nothing\n" for number in range(60_000)))
    home = Home(small_disk / "home")
    home.make(home.root)
    if stage == "corpus":
        fill(home.root, room)
    with pytest.raises(HomeError, match="(?i)no space") as told:
        corpus = obtain_corpus(home, CorpusConfig(source=str(text)))
        tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
        fill(home.root, room)
        store_sequences(home, corpus, tokenizer, SequencesConfig(mode="stream", processes=1))
    assert "ree some space" in str(told.value)
    assert len(str(told.value).splitlines()) <= 2


@dataclass
class Hashed:
    """A finished folder with two files. It records the names of the files that were hashed."""

    home: Home
    folder: Path
    names: list[str]

    def damage(self) -> tuple[str | None, list[str]]:
        """Return the damage that find_new_damage() found, and the names of the files that it hashed."""
        self.names.clear()
        return find_new_damage(self.home, self.folder), sorted(self.names)


def build_two(partial: Path) -> None:
    (partial / "a").write_text("one")
    (partial / "b").write_text("two")


@pytest.fixture
def hashed(home: Home, monkeypatch: pytest.MonkeyPatch) -> Hashed:
    write_once(home, home.corpora / "one", build_two)
    names: list[str] = []

    def digest(path: Path) -> str:
        names.append(path.name)
        return file_digest(path)

    monkeypatch.setattr("rnnlm.storage.stages.file_digest", digest)
    # With this setting, even files that were just written count as old.
    monkeypatch.setattr("rnnlm.storage.stages.SETTLED_NANOSECONDS", -1_000_000_000)
    return Hashed(home, home.corpora / "one", names)


def test_a_file_is_hashed_again_only_after_it_has_changed(hashed: Hashed) -> None:
    assert hashed.damage() == (None, ["a", "b"])
    assert hashed.damage() == (None, [])
    changed = hashed.folder / "b"
    before = changed.stat()
    changed.write_text("TWO")
    # The file's size and modification time are restored, but its change time still differs.
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hashed.damage() == ("b differs from its sha256", ["b"])
    changed.write_text("two")
    assert hashed.damage() == (None, ["b"])
    changed.unlink()
    assert hashed.damage()[0] == "b is missing"


def test_what_has_just_been_written_is_hashed_again(hashed: Hashed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was written just before it was hashed is hashed again at the next check.

    A change within the same tick of the file system's clock would not change the size or times.
    """
    monkeypatch.setattr("rnnlm.storage.stages.SETTLED_NANOSECONDS", 60_000_000_000)
    for _ in range(2):
        assert hashed.damage() == (None, ["a", "b"])


def test_what_was_hashed_when_it_was_made_is_not_hashed_again(hashed: Hashed) -> None:
    other = Hashed(hashed.home, hashed.home.corpora / "two", hashed.names)
    write_once(other.home, other.folder, build_two)
    assert other.names == ["a", "b"]
    assert other.damage() == (None, [])


def test_what_changes_no_time_stamp_is_found_by_verifying(hashed: Hashed) -> None:
    """forget_verified() makes the next check find damage that changes no time stamp.

    For instance, a failing disk may return other bytes than the written ones.
    """
    hashed.damage()
    (hashed.folder / "a").write_text("ONE")
    status = (hashed.folder / "a").stat()
    (notes,) = hashed.home.verified.iterdir()
    noted = json.loads(notes.read_text())
    noted["a"][1:] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    notes.write_text(json.dumps(noted))
    assert hashed.damage() == (None, [])
    forget_verified(hashed.home)
    assert hashed.damage() == ("a differs from its sha256", ["a"])


def test_a_home_that_cannot_be_written_to_is_hashed_each_time(hashed: Hashed) -> None:
    hashed.home.verified.write_text("a file in its place")
    for _ in range(2):
        assert hashed.damage() == (None, ["a", "b"])
