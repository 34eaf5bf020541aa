"""File names select splits only if the names are unambiguous. Files that are not read are reported."""

import logging
from pathlib import Path

import pytest

from rnnlm.corpora.split_names import (
    ARCHIVE,
    BOOKKEEPING,
    HIDDEN_NAME,
    NO_TEXT,
    NOTE_REASON,
    may_be_read,
    named_splits,
    reason_by_name,
)
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.packed_files import tar_of, zip_of
from tests.rnnlm.corpora.test_file_formats import stored, write


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
        ("valid.txt test.txt", "valid test"),  # The source is refused later, because it has no training text.
        ("news-valid.txt news-test.txt", "valid test"),
        # These names merely contain a word for a split.
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


def test_books_whose_titles_hold_a_split_s_word_are_all_read(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("dev-notes.txt", "emma.txt", "test-plan.txt", "the-train-robbery.txt", "train-test.txt", "training.md")
    for name in names:
        write(tmp_path / "books" / name, f"{name}\n".encode())
    text = stored(home, tmp_path / "books")["text"]
    assert text.split() == list(names)
    assert (
        "these files are read as ordinary text, because their names do not name a split: dev-notes.txt, test-plan.txt;"
        "\nif a file is a split, name it test.txt" in caplog.text
    )


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
        assert "emma.txt (other files name their split" in line
        assert "chart.png (not text" in line
        assert "README" not in line
        assert "train.txt" not in line


def test_a_named_format_reads_members_of_any_suffix_as_they_are(home: Home, tmp_path: Path) -> None:
    members = {"x/one.md": b"# one\n", "two.xyz": b"two\n", "a.png": b"\x89PNG", "README.md": b"no\n"}
    for name, data in members.items():
        write(tmp_path / "data" / name, data)
    packed = [write(tmp_path / "a.zip", zip_of(members)), write(tmp_path / "a.tar", tar_of(members))]
    for source in (tmp_path / "data", *packed):
        assert stored(home, source)["text"].split() == ["one"]
        assert sorted(stored(home, source, format="text")["text"].split()) == ["#", "one", "two"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, HIDDEN_NAME) for name in (".a.txt", "x/.git/config", ".x/a.txt", "__MACOSX/a.txt", "a/._b.txt")),
        *((f"out/{name}", BOOKKEEPING) for name in ("_SUCCESS", "_committed_31415", "_started_31415", "_metadata")),
        *((f"out/{name}", BOOKKEEPING) for name in ("_common_metadata", "_temporary/0/part-0", "_delta_log/00.json")),
        *((name, None) for name in ("_notes.txt", "_posts/a.md", "_index.md", "__init__.py", "a_b", "part-0")),
        *((name, None) for name in ("x.pq", "x.parq", "ptb.train", "a.TXT.gz", "./a.txt")),
        *((name, NOTE_REASON) for name in ("README", "a/LICENSE.txt", "changelog.md")),
        *((name, ARCHIVE) for name in ("a.zip", "x/b.tar.gz", "c.tgz")),
        *((name, NO_TEXT) for name in ("a.png", "a.bin", "x.crc")),
    ],
)
def test_one_rule_says_by_the_name_what_is_no_data(name: str, reason: str | None) -> None:
    assert reason_by_name(name) == reason
    assert may_be_read(name) == (reason is None)


def test_folders_in_a_zip_of_windows_stand_for_splits(home: Home, tmp_path: Path) -> None:
    data = zip_of({"in\\train\\a.txt": b"one\n", "in\\test\\b.txt": b"two\n", "in\\.git\\c.txt": b"no\n"})
    assert stored(home, write(tmp_path / "a.zip", data)) == {"train": "one\n", "test": "two\n"}
