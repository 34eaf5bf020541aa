"""Which names stand for splits; files that are not read are named."""

import logging
from pathlib import Path

import pytest

from rnnlm.corpora.split_names import named_splits, split_named
from rnnlm.home import Home
from rnnlm.storage.records import LeftOut
from tests.rnnlm.corpora.packing import tar_of, zip_of
from tests.rnnlm.corpora.test_file_formats import obtain, refused, stored, write


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        ("train.txt", "train"),
        ("TRAIN.TXT.gz", "train"),
        ("train-00000-of-00003.parquet train-00001-of-00003.parquet", "train train"),
        ("train.txt emma.txt", "train None"),
        ("train-1.txt train-2.txt dev.txt notes.txt", "train train valid None"),
        ("ptb.train ptb.valid ptb.test", "train valid test"),
        ("ptb.train.txt ptb.valid.txt ptb.test.txt", "train valid test"),
        ("news-train.jsonl news-dev.csv.zst other.txt", "train valid None"),
        ("x/train/a.txt x/train/b.txt x/test/a.txt x/README.txt", "train train test None"),
        ("valid.txt test.txt", "valid test"),  # refused later: no train
        ("news-valid.txt news-test.txt", "valid test"),
        # names that merely contain a split's word
        ("news-train.txt emma.txt", "None None"),
        ("test-plan.txt dev-diary.txt train-journey.txt", "None None None"),
        ("train-journey.txt test-plan.txt valid.txt", "None None None"),
        ("emma.txt test.txt", "None None"),
        ("train-test.txt", "None"),
        ("the-train-robbery.txt retrain.txt a.train.en.txt", "None None None"),
        ("training.md testing.md dev.rst test.html", "None None None None"),
        ("topics/testing.txt howto/training.txt index.txt", "None None None"),
        ("dev/a.txt test/b.txt c.txt", "None None None"),
    ],
)
def test_names_tell_splits_together(names: str, splits: str) -> None:
    assert " ".join(str(split) for split in named_splits(names.split()).values()) == splits


@pytest.mark.parametrize(
    ("name", "split"), [("train", "train"), ("validation", "valid"), ("train_sft", "train"), ("unsupervised", None)]
)
def test_the_first_or_last_word_of_a_hub_s_split_names_it(name: str, split: str | None) -> None:
    assert split_named(name) == split


def test_books_whose_titles_hold_a_split_s_word_are_all_read(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("dev-notes.txt", "emma.txt", "test-plan.txt", "the-train-robbery.txt", "train-test.txt", "training.md")
    for name in names:
        write(tmp_path / "books" / name, f"{name}\n".encode())
    text = stored(home, tmp_path / "books")["text"]
    assert text.split() == list(names)
    assert "read as ordinary text: dev-notes.txt, test-plan.txt; a split is named test.txt" in caplog.text


def test_files_of_no_split_are_named_in_a_warning(home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    members = {"train.txt": b"a\n", "emma.txt": b"b\n", "chart.png": b"\x89PNG", "README": b"c\n"}
    for name, data in members.items():
        write(tmp_path / "data" / name, data)
    packed = [write(tmp_path / "a.zip", zip_of(members)), write(tmp_path / "a.tar", tar_of(members))]
    for source in (tmp_path / "data", *packed):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert stored(home, source) == {"train": "a\n"}
        (line,) = caplog.messages
        assert "emma.txt (other names tell a split" in line
        assert "chart.png (not text" in line
        assert "README" not in line
        assert "train.txt" not in line


def test_the_record_lists_what_is_left_out_and_why(home: Home, tmp_path: Path) -> None:
    members = {"a.txt": b"a\n", "README": b"c\n", "b.pdf": b"%PDF-1.4 cut", "c.png": b"\x89PNG"}
    archive = write(tmp_path / "a.zip", zip_of(members))
    first, second = obtain(home, archive), obtain(home, archive)
    assert (first.skipped, second.skipped) == (False, True)
    assert first.left_out == second.left_out
    reasons = {one.name: one.reason for one in first.left_out}
    assert list(reasons) == ["a.zip: README", "a.zip: c.png", "a.zip: b.pdf"]
    assert reasons["a.zip: README"].startswith("about the text")
    assert reasons["a.zip: c.png"].startswith("not text")
    assert reasons["a.zip: b.pdf"].startswith("damaged pdf")
    assert isinstance(first.left_out[0], LeftOut)


def test_a_named_format_reads_members_of_any_suffix_as_they_are(home: Home, tmp_path: Path) -> None:
    members = {"x/one.md": b"# one\n", "two.xyz": b"two\n", "a.png": b"\x89PNG", "README.md": b"no\n"}
    for name, data in members.items():
        write(tmp_path / "data" / name, data)
    packed = [write(tmp_path / "a.zip", zip_of(members)), write(tmp_path / "a.tar", tar_of(members))]
    for source in (tmp_path / "data", *packed):
        assert stored(home, source)["text"].split() == ["one"]
        assert sorted(stored(home, source, format="text")["text"].split()) == ["#", "one", "two"]


def test_a_source_of_other_files_alone_is_refused_with_their_names(home: Home, tmp_path: Path) -> None:
    members = {"two.xyz": b"two\n", "a.png": b"\x89PNG", "README.md": b"no\n"}
    for name, data in members.items():
        write(tmp_path / "data" / name, data)
    packed = [write(tmp_path / "a.zip", zip_of(members)), write(tmp_path / "a.tar", tar_of(members))]
    for source in (tmp_path / "data", *packed):
        message = refused(Home(tmp_path / "other"), source, "has no text")
        assert "two.xyz" in message
        assert "a.png" in message
        assert "README.md (about the text" in message
