"""Names tell splits only where they mean to; what is not read is named."""

import logging
from pathlib import Path

import pytest

from rnnlm.corpora.split_names import split_named
from rnnlm.home import Home
from tests.rnnlm.corpora.packing import tar_of, zip_of
from tests.rnnlm.corpora.test_file_formats import refused, stored, write


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.txt", "train"),
        ("TRAIN.TXT.gz", "train"),
        ("news-train.jsonl", "train"),
        ("train-00000-of-00003.parquet", "train"),
        ("valid_0.txt", "valid"),
        ("ptb.test.txt", "test"),
        ("ptb.train", "train"),
        ("folder/x-dev.csv.zst", "valid"),
        ("validation", "valid"),
        ("the-train-robbery.txt", None),
        ("nettle-dev-changelog.txt", None),
        ("training.ground.notes.txt", "train"),
        ("retrain.txt", None),
        ("a.train.en.txt", None),
        ("train/one.txt", None),
    ],
)
def test_a_split_is_named_by_a_whole_stem_or_at_its_beginning_or_end(name: str, split: str | None) -> None:
    assert split_named(name) == split


def test_books_whose_titles_hold_a_split_s_word_are_all_read(home: Home, tmp_path: Path) -> None:
    for name in ("emma.txt", "moby-dick.txt", "the-train-robbery.txt", "nettle-dev-changelog.txt"):
        write(tmp_path / "books" / name, f"{name}\n".encode())
    assert stored(home, tmp_path / "books") == {
        "text": "emma.txt\nmoby-dick.txt\nnettle-dev-changelog.txt\nthe-train-robbery.txt\n"
    }


def test_what_belongs_to_no_split_while_others_do_is_named_in_a_warning(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members = {"train.txt": b"a\n", "emma.txt": b"b\n", "chart.png": b"\x89PNG", "README": b"c\n"}
    for name, data in members.items():
        write(tmp_path / "data" / name, data)
    packed = [write(tmp_path / "a.zip", zip_of(members)), write(tmp_path / "a.tar", tar_of(members))]
    for source in (tmp_path / "data", *packed):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert stored(home, source) == {"train": "a\n"}
        assert "emma.txt" in caplog.text
        assert "chart.png" in caplog.text
        assert "README" not in caplog.text
        assert "train.txt" not in caplog.text


def test_a_file_that_alone_names_a_split_is_named_in_the_error(home: Home, tmp_path: Path) -> None:
    for name in ("emma.txt", "notes-dev.txt"):
        write(tmp_path / "data" / name, b"a\n")
    assert "notes-dev.txt" in refused(home, tmp_path / "data", "text for valid .* but none for train")


def test_a_named_format_reads_members_of_any_suffix(home: Home, tmp_path: Path) -> None:
    members = {"x/one.md": b"one\n", "two.rst": b"two\n", "a.png": b"\x89PNG", "README.md": b"no\n"}
    for name, data in members.items():
        write(tmp_path / "data" / Path(name).name, data)
    packed = [write(tmp_path / "a.zip", zip_of(members)), write(tmp_path / "a.tar", tar_of(members))]
    for source in (tmp_path / "data", *packed):
        message = refused(Home(tmp_path / "other"), source, "has no text")
        assert "one.md" in message
        assert "a.png" in message
        texts = stored(home, source, format="text")
        assert sorted(texts["text"].split()) == ["one", "two"]
