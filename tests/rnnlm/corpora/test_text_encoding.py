"""Byte-order marks are honoured; what cannot be decoded is told at once, with a guess of its encoding."""

import codecs
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import check_source
from rnnlm.errors import CorpusError
from rnnlm.home import Home
from tests.rnnlm.corpora.packing import csv_of, zip_of
from tests.rnnlm.corpora.test_file_formats import refused, stored, write

GERMAN = "Der Müller läuft über die schöne Straße, sagte die Großmutter.\n" * 5
RUSSIAN = "Он пришёл домой и лёг спать, потому что очень устал.\n" * 5
JAPANESE = (
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で泣いていた。\n" * 5
)


@pytest.mark.parametrize("configured", ["utf-8", "latin-1"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_wins_over_the_setting(
    home: Home, tmp_path: Path, mark: bytes, encoding: str, configured: str
) -> None:
    text = "Zürich\r\n𝔞\n" + "x" * (1 << 20) + "\n"  # more than one chunk
    path = write(tmp_path / "a.txt", mark + text.encode(encoding))
    assert stored(home, path, encoding=configured)["text"].startswith("Zürich\n𝔞\nxxx")
    table = write(tmp_path / "a.csv", mark + csv_of(["Zürich"]).decode().encode(encoding))
    assert stored(home, table, encoding=configured) == {"text": "Zürich\n"}


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        ("café\n".encode("latin-1"), "cp1252"),
        (GERMAN.encode("cp1252"), "cp1252"),
        (RUSSIAN.encode("cp1251"), "cp1251"),
        (RUSSIAN.encode("koi8-r"), "koi8_r"),
        (JAPANESE.encode("shift_jis"), "cp932"),
        (GERMAN.encode("utf-16-le"), "utf_16_le"),  # without a mark
    ],
)
def test_the_message_offers_an_encoding_that_works(home: Home, tmp_path: Path, data: bytes, guess: str) -> None:
    path = write(tmp_path / "a.txt", data)
    refused(home, path, rf"corpus\.encoding={guess} \(a guess")
    assert stored(home, path, encoding=guess)["text"].encode(guess) == data


def test_a_few_bad_bytes_in_utf_8_are_not_taken_for_another_encoding(home: Home, tmp_path: Path) -> None:
    message = refused(home, write(tmp_path / "a.txt", GERMAN.encode() + b"\xff" + GERMAN.encode()), "not utf-8")
    assert "guess" not in message
    assert "undecodable=replace" in message


def test_all_bad_files_of_a_folder_are_told_at_once(home: Home, tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / "data" / f"good{number}.txt", b"good\n")
        write(tmp_path / "data" / f"x/bad{number}.txt", GERMAN.encode("cp1252"))
    message = refused(home, tmp_path / "data", r"4 of 8 files are not utf-8")
    assert all(f"bad{number}.txt (cp1252)" in message for number in range(4))
    assert "set corpus.encoding=cp1252 (a guess)" in message
    assert "good" not in message
    with pytest.raises(CorpusError, match="4 of 8 files"):  # before a server is started for it
        check_source(CorpusConfig(source=str(tmp_path / "data")))
    assert stored(home, tmp_path / "data", encoding="cp1252")["text"].count(GERMAN) == 4


def test_bad_files_of_several_encodings_and_in_archives_are_told_at_once(home: Home, tmp_path: Path) -> None:
    bad = {
        "a.txt": GERMAN.encode("cp1252"),
        "b.md": RUSSIAN.encode("cp1251"),
        "c.csv": b"text\n\xff\n",
        "d.txt": b"ok\n",
    }
    message = refused(home, write(tmp_path / "a.zip", zip_of(bad)), "3 of 4 files")
    assert "a.txt (cp1252), a.zip: b.md (cp1251), a.zip: c.csv" in message
    assert "convert them" in message
