"""Files, bytes and lines that a text has gained since the last nightly run are found, for every kind of source."""

import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rnnlm.config import CorpusConfig
from rnnlm.corpora import text_changes as module
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.text_changes import PARTS, PartChange, TextChanges, new_lines, text_changes
from rnnlm.storage.home import Home

OLD = "one\ntwo\nthree\n"


def night(home: Home, source: Path | str) -> TextChanges | None:
    return text_changes(obtain_corpus(home, CorpusConfig(source=str(source))))


def changes(home: Home, source: Path | str) -> list[tuple[str, str, int, int, int | None]]:
    found = night(home, source)
    assert found is not None
    return [(one.name, one.change, one.bytes_before, one.bytes_now, one.new_lines) for one in found.changes]


def test_of_a_file_that_grows_the_new_lines_are_counted_and_shown(home: Home, tmp_path: Path) -> None:
    text = tmp_path / "log.txt"
    text.write_text(OLD)
    assert night(home, text) is None  # There is no previous text in the first nightly run.
    text.write_text(f"{OLD}one\nfour\n")
    found = night(home, text)
    grown = PartChange(
        name="log.txt", change="changed", bytes_before=14, bytes_now=23, new_lines=2, first_lines=("one", "four")
    )
    assert found == TextChanges(part_count=1, parts_before=1, bytes_before=14, changes=(grown,))
    assert night(home, text) == found  # A second run in the same night finds the same changes.
    text.touch()
    assert night(home, text) == found
    assert found.first_lines == [("log.txt", "one"), ("log.txt", "four")]


def test_of_a_folder_each_new_changed_and_gone_file_is_named(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "tickets"
    for name, text in {"a.txt": OLD, "b/c.txt": "x\n", "d.txt": "gone\n", "e.txt": "renamed\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    night(home, folder)
    (folder / "a.txt").write_text("zero\n" + OLD)
    (folder / "d.txt").unlink()
    (folder / "e.txt").rename(folder / "f.txt")
    (folder / "новый.txt").write_text("новая строка\n")
    assert changes(home, folder) == [
        ("a.txt", "changed", 14, 19, 1),
        ("новый.txt", "new", 0, 24, 1),
        ("d.txt", "gone", 5, 0, 0),
    ]


def test_of_an_archive_the_members_are_compared(home: Home, tmp_path: Path) -> None:
    for members in ({"a.txt": OLD, "b.txt": "x\n"}, {"a.txt": OLD, "b.txt": "x\ny\n", "c.txt": "z\n"}):
        with tarfile.open(tmp_path / "news.tar", "w") as archive:
            for name, text in members.items():
                (tmp_path / name).write_text(text)
                archive.add(tmp_path / name, f"news/{name}")
        found = night(home, tmp_path / "news.tar")
    assert found is not None
    assert [(one.name, one.change, one.new_lines) for one in found.changes] == [
        ("b.txt", "changed", 1),
        ("c.txt", "new", 1),
    ]


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.csv.gz"])
def test_of_a_table_the_rows_are_compared(home: Home, tmp_path: Path, name: str) -> None:
    for rows in (["first", "second"], ["first", "second", "third", "fourth"]):
        lines = ["text", *rows] if "csv" in name else [f'{{"text": "{row}"}}' for row in rows]
        data = "".join(f"{line}\n" for line in lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        found = night(home, tmp_path / name)
    assert found is not None
    assert found.first_lines == [(name, "third"), (name, "fourth")]


def test_another_place_or_other_settings_are_not_the_text_before(home: Home, tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "t.txt").write_text(f"Text {place}\n")
        assert night(home, tmp_path / place / "t.txt") is None
    lowercase = CorpusConfig(source=str(tmp_path / "a" / "t.txt"), lowercase=True)
    assert text_changes(obtain_corpus(home, lowercase)) is None


def test_without_the_text_before_nothing_is_said(home: Home, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text(OLD)
    before = obtain_corpus(home, CorpusConfig(source=str(text)))
    text.write_text(f"{OLD}four\n")
    after = obtain_corpus(home, CorpusConfig(source=str(text)))
    (before.folder / PARTS).unlink()  # Simulate a text that was stored by rnnlm 0.3, without a list of files.
    assert text_changes(after) is None
    shutil.rmtree(before.folder)  # Simulate `rnnlm prune`, which may have removed the text.
    assert text_changes(after) is None


def test_a_file_that_changed_in_too_many_places_has_only_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_COMPARISON", 8)
    assert new_lines(memoryview(b"a\nb\nc\nd\ne\nf\n"), memoryview(b"b\na\nc\nd\nf\ne\n")) == (None, [])
    assert new_lines(memoryview(b"a\nb\nc\nd\ne\nf\n"), memoryview(b"a\nb\nx\nc\nd\ne\nf\n")) == (1, [b"x\n"])


lines = st.lists(st.sampled_from([b"a", b"b", b"ab", b"", b"aa"]), max_size=12)


@given(lines, lines)
@example([b"a"], [b"a", b"a"])
@example([b"ab", b"a"], [b"b", b"a"])
@example([b"a", b"b"], [b"b", b"a"])
def test_new_lines_are_those_that_the_old_text_has_less_often(old: list[bytes], new: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMPARED_BYTES", 4)
        count, _ = new_lines(*(memoryview(b"".join(line + b"\n" for line in some)) for some in (old, new)))
    assert count == sum(max(0, new.count(line) - old.count(line)) for line in set(new))


def test_a_clock_that_was_ahead_does_not_change_the_text_before(home: Home, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    for number, lines in enumerate(("one\n", "one\ntwo\n", "one\ntwo\nthree\n")):
        text.write_text(lines)
        corpus = obtain_corpus(home, CorpusConfig(source=str(text)))
        if number == 0:  # In the first night, the clock was ahead by years.
            (note,) = home.notes.iterdir()
            note.write_text(json.dumps(json.loads(note.read_text()) | {"obtained": "2099-01-01T00:00:00+00:00"}))
    found = text_changes(corpus)
    assert found is not None
    assert found.bytes_before == len("one\ntwo\n")
