"""All scoring commands detect the kind of a file from its content, and report files that are not text."""

import gzip
import io
import json
import os
import random
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest

from rnnlm.corpora.format_detection import BINARY_FORMATS
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.document_reader import read_documents
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.input_files import Inputs, find_inputs, readable_inputs, table
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, csv_of, json_of, parquet_of, tar_of, zip_of

TEXTS = ["the cat", "Zürich"]
PLAIN = "the cat\nZürich\n"


def sqlite_bytes() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (text)")
        return connection.serialize()


def arrow_bytes() -> bytes:
    out = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"text": TEXTS}), out)
    return out.getvalue()


READ = {  # For each file name, READ has the content and the detected kind.
    "a.pq": (parquet_of(list(TEXTS)), "parquet"),
    "part-0": (parquet_of(list(TEXTS)), "parquet"),
    "wrong.csv": (parquet_of(list(TEXTS)), "parquet"),
    "part-00000": (json_of(TEXTS), "jsonl"),
    "part-long": (json_of(["the cat", "Zürich"]).replace(b'{"id"', b'{"a": "' + b"x" * 9_000 + b'", "id"'), "jsonl"),
    "part-list": (b"[" + json_of(TEXTS).replace(b"\n", b",").rstrip(b",") + b"]", "jsonl"),
    "a.jsonl.gz": (gzip.compress(json_of(TEXTS)), "jsonl"),
    "gz-by-content.jsonl": (gzip.compress(json_of(TEXTS)), "jsonl"),
    "utf16.jsonl": (json_of(TEXTS).decode().encode("utf-16"), "jsonl"),
    "utf16be.tsv": (f"\ufeff{csv_of(TEXTS, chr(9)).decode()}".encode("utf-16-be"), "tsv"),
    "a.txt": (PLAIN.encode("utf-8-sig"), "text"),
    "latin.txt": (PLAIN.encode("cp1252"), "text"),
    "wide.txt": (PLAIN.encode("utf-16"), "text"),
    "a.md": (PLAIN.encode(), "text"),
}  # fmt: skip
REFUSED = {  # For each file name, REFUSED has the content and a part of the error message.
    "a.zip": (zip_of({"a.txt": b"one\n"}), "is an archive"),
    "zipped.txt": (zip_of({"a.txt": b"one\n"}), "is an archive"),
    "a.tar.gz": (gzip.compress(tar_of({"a.txt": b"one\n"})), "is an archive"),
    "a.tgz": (gzip.compress(tar_of({"a.txt": b"one\n"})), "is an archive"),
    "tarred": (tar_of({"a.txt": b"one\n"}), "is an archive"),
    "book.xlsx": (zip_of({"xl/a.xml": b"<a/>"}), "is an archive"),
    "a.docx": (zip_of({"word/document.xml": b"<a/>"}), "is a document"),
    "a.html": (b"<p>one</p>", "is a document"),
    "page.txt": (b"<!DOCTYPE html>\n<p>one</p>", "is a document"),
    "page": (b"\n<html><p>one</p>", "is a document"),
    "a.pdf": (b"%PDF-1.7\n", "is a document"),
    "pdf.txt": (b"%PDF-1.7\n", "is a document"),
    "noise": (random.Random(0).randbytes(3_000), "is not utf-8.*; no encoding fits"),
    "noise.csv": (random.Random(1).randbytes(300_000), "is not utf-8"),
    "zeros.txt": (bytes(5_000), "NUL"),
    "picture.txt": (b"\x89PNG\r\n\x1a\n" + bytes(100), "picture"),
    "a.db.txt": (sqlite_bytes(), "SQLite"),
    "arrow": (arrow_bytes(), "Arrow file"),
    "pickle.txt": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x04text\x94.", "pickle"),
    "lfs.txt": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "Git LFS"),
}


def inputs(path: Path | str) -> Inputs:
    return find_inputs(ScoringConfig(input=str(path), output="x.parquet"))


@pytest.mark.parametrize("name", READ)
def test_content_decides_how_a_file_is_read(tmp_path: Path, name: str) -> None:
    data, kind = READ[name]
    (tmp_path / name).write_bytes(data)
    (file,) = inputs(tmp_path / name).files
    assert file.kind == kind
    config = ScoringConfig(input=str(tmp_path / name), output="x.parquet")
    assert [(one.text or "").rstrip("\n") for one in read_documents([file], config)] == TEXTS


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_is_not_text_is_refused_with_its_reason(tmp_path: Path, name: str, suffix: str) -> None:
    data, reason = REFUSED[name]
    path = tmp_path / (name + suffix if not name.endswith("gz") else name)
    path.write_bytes(COMPRESSIONS[suffix](data) if not name.endswith("gz") else data)
    with pytest.raises(CorpusError, match=reason) as caught:
        inputs(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_among_others_it_is_left_out_with_its_reason_by_every_command(tmp_path: Path) -> None:
    for name, (data, _) in (REFUSED | READ).items():
        (tmp_path / name).write_bytes(data)
    for name in (str(tmp_path), f"{tmp_path}/*"):
        for config in (
            ScoringConfig(input=name, output="x.parquet"),
            FilterConfig(input=name, output="kept", keep="tokens > 0"),
        ):
            found = find_inputs(config)
            assert {file.path.name for file in found.files} <= set(READ)
            left_out = {Path(one.name).name for one in found.left_out if not one.read}
            assert left_out >= {name for name in REFUSED if name != "book.xlsx"}
        # `rnnlm pairs` and `rnnlm rescore` call readable_inputs().
        assert {file.path.name for file in readable_inputs(name).files} <= set(READ)


@pytest.mark.parametrize(
    "mark", [mark for _, mark, _ in BINARY_FORMATS if mark.isascii() and mark.decode().isprintable()]
)
def test_a_text_may_begin_with_the_letters_of_a_mark(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "a").write_bytes(mark + b" and so on\n" + b"12345678" + mark)
    assert [file.kind for file in inputs(tmp_path / "a").files] == ["text"]


def test_what_was_guessed_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(PLAIN.encode("cp1252"))
    (tmp_path / "a.tsv").write_bytes(b'text\n"No\n')
    notes = {Path(one.name).name: one.reason for one in inputs(tmp_path).left_out if one.read}
    assert "read as cp1252, by a guess" in notes["latin.txt"]
    assert "quotes as characters" in notes["a.tsv"]


def test_the_folders_of_other_programs_have_bookkeeping_that_is_no_text(tmp_path: Path) -> None:
    for name in ("_SUCCESS", "_committed_123", "_started_123", "_metadata", "_common_metadata", ".part-0.crc"):
        (tmp_path / name).write_text('{"added": ["part-0"]}\n')
    (tmp_path / "part-0").write_bytes(parquet_of(list(TEXTS)))
    (tmp_path / "_notes.txt").write_text("a text\n")
    for name in (str(tmp_path), f"{tmp_path}/*", f"{tmp_path}/**"):
        assert [file.path.name for file in inputs(name).files] == ["_notes.txt", "part-0"]
    assert [file.path.name for file in inputs(f"{tmp_path}/_S*").files] == ["_SUCCESS"]


def test_names_that_are_not_utf_8_are_read_and_shown(tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", b"caf\xe8.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("one\n")
    config = ScoringConfig(input=str(tmp_path), output="x.parquet")
    sources = [one.source for one in read_documents(find_inputs(config).files, config)]
    assert [source.rpartition("/")[2] for source in sources] == ["caf\\xe8.txt", "caf\\xe9.txt"]
    json.dumps(sources).encode()


def test_a_table_is_asked_for_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "pairs").write_bytes(json_of(TEXTS))
    (tmp_path / "a.txt").write_text("one\n")
    (file,) = readable_inputs(str(tmp_path / "pairs")).files
    assert table(file, "pair").kind == "jsonl"
    (text,) = readable_inputs(str(tmp_path / "a.txt")).files
    with pytest.raises(CorpusError, match="expected a table"):
        table(text, "pair")
