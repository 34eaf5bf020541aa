"""Text from files and folders, or an error that says what to do."""

import hashlib
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import corpus_name, obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.home import Home


def obtain(home: Home, source: Path, **settings: object) -> str:
    corpus = obtain_corpus(home, CorpusConfig.model_validate({"source": str(source)} | settings))
    return (corpus.folder / "text.txt").read_bytes().decode()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_one_file_keeps_its_sha256_and_its_bytes(home: Home, tmp_path: Path) -> None:
    data = "Zwölf Boxkämpfer\njagen\x0bVik\u2028tor\n\n".encode()
    corpus = obtain_corpus(home, CorpusConfig(source=str(write(tmp_path / "My Text.txt", data))))
    assert corpus.digest == hashlib.sha256(data).hexdigest()
    assert (corpus.folder / "text.txt").read_bytes() == data
    assert (corpus.name, corpus.corpus_bytes) == ("my-text", len(data))


def test_the_second_time_is_skipped_under_any_name(home: Home, tmp_path: Path) -> None:
    config = CorpusConfig(source=str(write(tmp_path / "a.txt", b"text\n")))
    assert not obtain_corpus(home, config).skipped
    again = obtain_corpus(home, config.model_copy(update={"name": "other"}))
    assert (again.skipped, again.name) == (True, "other")
    assert not obtain_corpus(home, config, force=True).skipped


def test_line_ends_become_line_feeds_and_the_last_line_gets_one(home: Home, tmp_path: Path) -> None:
    assert obtain(home, write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree")) == "one\ntwo\nthree\n"


def test_another_encoding_is_read_when_named(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "café\n".encode("latin-1"))
    assert obtain(home, path, encoding="latin-1") == "café\n"


def test_undecodable_bytes_are_told_with_file_and_offset(home: Home, tmp_path: Path) -> None:
    # beyond the first chunk of a mebibyte, and after a character that the chunk's end cuts in two
    data = b"a" * ((1 << 20) - 1) + "é".encode() + b"bc\xff"
    with pytest.raises(CorpusError, match=rf"a\.txt: byte {(1 << 20) + 3} is not utf-8"):
        obtain(home, write(tmp_path / "a.txt", data), undecodable="refuse")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "empty"), (b" \n\t\n", "empty"), (b"a\x00b", "NUL"), (b"caf\xe9", "byte 3")],
)
def test_what_is_no_text_is_refused_and_leaves_nothing(home: Home, tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        obtain(home, write(tmp_path / "a.txt", data), undecodable="refuse")
    assert [path.name for path in home.corpora.iterdir()] == []


def test_unknown_encoding_names_the_field(home: Home, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"corpus\.encoding"):
        obtain(home, write(tmp_path / "a.txt", b"a"), encoding="klingon")


def test_a_missing_path_names_the_catalogue(home: Home, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"nothing\.txt.*\n.*python-docs"):
        obtain(home, tmp_path / "nothing.txt")


@pytest.mark.parametrize("url", ["ftp://example.org/a.txt", "file:///etc/hostname", "s3://bucket/a"])
def test_another_scheme_is_refused(home: Home, url: str) -> None:
    with pytest.raises(CorpusError, match="expected an http or https URL"):
        obtain_corpus(home, CorpusConfig(source=url))


def test_folder_with_named_splits(home: Home, tmp_path: Path) -> None:
    for name in ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt", "README"):
        write(tmp_path / name, f"{name}\n".encode())
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path)))
    assert corpus.files == {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}
    assert (corpus.folder / "valid.txt").read_text() == "ptb.valid.txt\n"


def test_folder_without_training_text_says_so(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "valid.txt", b"a\n")
    write(tmp_path / "test.txt", b"a\n")
    with pytest.raises(CorpusError, match="valid .*, test .* but none for train"):
        obtain(home, tmp_path)


def test_folder_of_texts_is_one_text_in_order_of_name(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "b.txt", b"second")
    write(tmp_path / "a.txt", b"first")
    write(tmp_path / "picture.png", b"\x89PNG")
    assert obtain(home, tmp_path) == "first\nsecond\n"


def test_folder_without_text_is_refused(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "picture.png", b"\x89PNG")
    with pytest.raises(CorpusError, match="has no text"):
        obtain(home, tmp_path)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("https://example.org/x/War%20and.txt?a=b", "war-20and"),
        ("python-docs", "python-docs"),
        ("???", "corpus"),
    ],
)
def test_names_fit_the_registry(source: str, name: str) -> None:
    assert corpus_name(CorpusConfig(source=source)) == name
