"""A byte-order mark determines the encoding. For undecodable files, an encoding is guessed or named in an error."""

import codecs
import random
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import check_source
from rnnlm.corpora.encoding_guess import rivals
from rnnlm.corpora.text_encoding import guess_encoding
from rnnlm.errors import CorpusError
from rnnlm.reports.pipeline_page import corpus_report
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.central_european_prose import PROSE, PROSE_ENCODINGS, UNSEEN, one_line_texts
from tests.rnnlm.corpora.packed_files import csv_of, parquet_of
from tests.rnnlm.corpora.sentences import ENCODINGS, SENTENCES
from tests.rnnlm.corpora.test_file_formats import obtain, refused, stored, write

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
    text = "Zürich\r\n𝔞\n" + "x" * (1 << 20) + "\n"  # The text is longer than one chunk of the decoder.
    path = write(tmp_path / "a.txt", mark + text.encode(encoding))
    assert stored(home, path, encoding=configured)["text"].startswith("Zürich\n𝔞\nxxx")
    table = write(tmp_path / "a.csv", mark + csv_of(["Zürich"]).decode().encode(encoding))
    assert stored(home, table, encoding=configured) == {"text": "Zürich\n"}


def test_one_error_lists_all_undecodable_files_of_a_folder(home: Home, tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / "data" / f"good{number}.txt", b"good\n")
        write(tmp_path / "data" / f"x/bad{number}.txt", GERMAN.encode("cp1252"))
    message = refused(home, tmp_path / "data", r"4 of 8 files are not utf-8")
    assert all(f"bad{number}.txt (cp1252)" in message for number in range(4))
    assert "set corpus.encoding=cp1252 (a guess)" in message
    assert "good" not in message
    # The check before the server's start must refuse these files, too.
    with pytest.raises(CorpusError, match="4 of 8 files"):
        check_source(CorpusConfig(source=str(tmp_path / "data"), undecodable="refuse"))
    assert stored(home, tmp_path / "data", encoding="cp1252")["text"].count(GERMAN) == 4


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        ("café\n".encode("latin-1"), "cp1252"),
        (RUSSIAN.encode("cp1251"), "cp1251"),
        (JAPANESE.encode("shift_jis"), "cp932"),
        (GERMAN.encode("utf-16-le"), "utf_16_le"),  # The text has no byte-order mark.
        pytest.param(  # The undecodable byte is not in the first chunk.
            b"plain\n" * (1 << 18) + "café\n".encode("cp1252"), "cp1252", marks=pytest.mark.long
        ),
    ],
)
def test_an_undecodable_file_is_read_or_refused_with_a_guessed_encoding(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, guess: str
) -> None:
    path = write(tmp_path / "a.txt", data)
    refused(home, path, rf"corpus\.encoding={guess} \(a guess")
    corpus = obtain(home, path)
    assert (corpus.folder / corpus.files["text"]).read_text(encoding="utf-8") == data.decode(guess)
    (noted,) = corpus.left_out
    assert noted.read
    assert noted.name == "a.txt"
    told, _, words = noted.reason.partition(f"read as {guess}, by a guess")
    assert all(word in data.decode(guess) and not word.isascii() for word in words.removeprefix(": ").split(", "))
    assert f"1 read with changes: a.txt ({told}" in caplog.text
    assert f"read as {guess}, by a guess" in corpus_report(corpus).replace("\\", "")


def test_one_bad_byte_in_utf_8_costs_one_character(home: Home, tmp_path: Path) -> None:
    data = "é\n".encode() * 9 + b"the \xff cat\n" + "é\n".encode() * 9
    assert stored(home, write(tmp_path / "a.txt", data)) == {"text": "é\n" * 9 + "the \ufffd cat\n" + "é\n" * 9}
    (noted,) = obtain(home, tmp_path / "a.txt").left_out
    assert noted.reason == "byte 31 is not utf-8: invalid start byte; it is read as U+FFFD"


def test_each_file_of_a_folder_has_its_own_encoding(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(folder / "a.txt", b"ok\n")
    write(folder / "b.txt", GERMAN.encode("cp1252"))
    write(folder / "c.md", RUSSIAN.encode("koi8-r"))
    write(folder / "d.txt", random.Random(0).randbytes(4_000))
    corpus = obtain(home, folder)
    text = (corpus.folder / corpus.files["text"]).read_text(encoding="utf-8")
    assert text.startswith("ok\n" + GERMAN)
    assert "пришёл домой" in text
    assert [(Path(one.name).name, one.read) for one in corpus.left_out] == [
        ("b.txt", True),
        ("c.md", True),
        ("d.txt", False),
    ]
    assert "no encoding fits" in corpus.left_out[2].reason
    with pytest.raises(CorpusError, match=r"d\.txt: byte \d+ is not utf-8"):
        obtain(home, folder / "d.txt")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"one\na\x00b\nlast\n"),
        ("a.csv", b"text\none\na\x00b\nlast\n"),
        ("a.tsv", b"text\none\na\x00b\nlast\n"),
        ("a.jsonl", b'{"text": "one"}\n{"text": "a\\u0000b"}\n{"text": "last"}\n'),
        ("a.parquet", parquet_of(["one", "a\x00b", "last"])),
    ],
)
def test_a_nul_costs_one_character_in_every_format(home: Home, tmp_path: Path, name: str, data: bytes) -> None:
    assert stored(home, write(tmp_path / name, data)) == {"text": "one\na\ufffdb\nlast\n"}
    (noted,) = obtain(home, tmp_path / name).left_out
    assert noted.reason == "contains NUL bytes, which are read as U+FFFD"
    refused(home.__class__(tmp_path / "strict"), tmp_path / name, "NUL")


@pytest.mark.parametrize(
    ("encoding", "language"), [(encoding, one) for encoding, languages in ENCODINGS.items() for one in languages]
)
def test_the_letters_of_a_language_decide_its_encoding(encoding: str, language: str) -> None:
    text = "\n".join(line for line in SENTENCES[language].splitlines() if encodable(line, encoding))
    guess = guess_encoding(text.encode(encoding), "utf-8")
    assert guess is not None
    assert text.encode(encoding).decode(guess) == text


def encodable(text: str, encoding: str) -> bool:
    return text.encode(encoding, "replace").decode(encoding) == text


def test_at_most_two_percent_of_western_sentences_are_read_wrongly() -> None:
    lines = [line for language in ENCODINGS["iso8859-1"] for line in SENTENCES[language].splitlines()]
    wrong = [line for line in lines if line.encode("cp1252").decode(guessed(line, "cp1252"), "replace") != line]
    assert len(wrong) <= 0.02 * len(lines), wrong


@pytest.mark.parametrize(("length", "most_wrong"), [(40, 0.04), (80, 0.01), (200, 0.0)])
def test_one_line_of_a_central_european_text_is_rarely_read_wrongly(length: int, most_wrong: float) -> None:
    """Few guesses for texts of one line are wrong. Each wrong guess has the right encoding as a rival."""
    cases = in_older_encodings({language: one_line_texts(language, length) for language in PROSE})
    wrong = read_wrongly(cases)
    assert len(wrong) <= most_wrong * len(cases), wrong
    for text, encoding in wrong:
        data = text.encode(encoding)
        assert text in [data.decode(name, "replace") for name in rivals(data, guessed(text, encoding))]


def test_single_sentences_on_which_no_rule_was_tuned_are_rarely_read_wrongly() -> None:
    """At most six of 168 sentences are decoded wrongly. At most one of the wrong guesses has no rival."""
    cases = in_older_encodings({language: text.splitlines() for language, text in UNSEEN.items()})
    wrong = read_wrongly(cases)
    assert len(cases) == 168
    assert len(wrong) <= 6, wrong
    certain = [one for one in wrong if not rivals(one[0].encode(one[1]), guessed(*one))]
    assert len(certain) <= 1, certain


def test_a_certain_guess_has_no_rival() -> None:
    for language in ENCODINGS["cp1252"]:
        data = SENTENCES[language].encode("cp1252")
        assert rivals(data, guessed(SENTENCES[language], "cp1252")) == []


def test_an_uncertain_guess_names_the_other_encoding_and_the_setting(home: Home, tmp_path: Path) -> None:
    corpus = obtain(home, write(tmp_path / "a.txt", "Susjed popravlja krov, a sin mu pomaže.\n".encode("iso8859-2")))
    (noted,) = corpus.left_out
    assert noted.reason.endswith(
        "read as cp1250, by a guess: pomaľe; it may be iso8859-2, which corpus.encoding=iso8859-2 sets"
    )


def in_older_encodings(texts: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return each text of a language with each older encoding of this language. ASCII texts are left out."""
    pairs = [(language, encoding) for language in texts for encoding in PROSE_ENCODINGS[language]]
    return [(text, encoding) for language, encoding in pairs for text in texts[language] if not text.isascii()]


def read_wrongly(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs of a text and its encoding for which decoding with the guessed encoding changes the text."""
    return [one for one in cases if one[0].encode(one[1]).decode(guessed(*one), "replace") != one[0]]


def guessed(text: str, encoding: str) -> str:
    return guess_encoding(text.encode(encoding), "utf-8") or "ascii"


def test_three_words_show_whether_a_guess_is_right(home: Home, tmp_path: Path) -> None:
    corpus = obtain(home, write(tmp_path / "a.txt", GERMAN.encode("cp1252")))
    (noted,) = corpus.left_out
    assert noted.reason.endswith("read as cp1252, by a guess: Müller, läuft, über")


@pytest.mark.parametrize(
    "data", [bytes(range(128, 256)) * 9, random.Random(2).randbytes(5_000), b"\x00\x01\x02\xff" * 99]
)
def test_bytes_that_are_no_text_have_no_guess(data: bytes) -> None:
    assert guess_encoding(data, "utf-8") is None
