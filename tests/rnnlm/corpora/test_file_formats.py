"""The same text is read from every format and archive. File names such as train.txt select splits."""

import hashlib
import json
import logging
import os
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora import table_files
from rnnlm.corpora.download import check_source, obtain_corpus
from rnnlm.corpora.splits import corpus_documents
from rnnlm.errors import CorpusError
from rnnlm.extensions.documents.document_prose import library_versions
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord
from rnnlm.storage.stages import forget_verified
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, csv_of, json_of, parquet_of, tar_of, zip_of

TEXTS = ["the cat sees\nthe dog", 'a "quoted", comma\n', "", "Zürich\ttab\r\nlast"]
LINES = 'the cat sees\nthe dog\na "quoted", comma\n\nZürich\ttab\nlast\n'
PACKED = {
    "text.txt": LINES.encode(),
    "text.csv": csv_of(TEXTS),
    "text.tsv": csv_of(TEXTS, "\t"),
    "text.jsonl": json_of(TEXTS),
    "text.parquet": parquet_of(list(TEXTS)),
}


def obtain(home: Home, source: object, **settings: object) -> CorpusRecord:
    return obtain_corpus(home, CorpusConfig.model_validate({"source": str(source)} | settings))


def stored(home: Home, source: object, **settings: object) -> dict[str, str]:
    corpus = obtain(home, source, **settings)
    return {role: (corpus.folder / name).read_bytes().decode() for role, name in corpus.files.items()}


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def refused(home: Home, source: object, message: str, **settings: object) -> str:
    """Return the error message for a source that is read with settings that do not allow undecodable bytes."""
    settings = {"undecodable": "refuse"} | settings
    with pytest.raises(CorpusError, match=message) as caught:
        obtain(home, source, **settings)
    assert len(str(caught.value).splitlines()) <= 3
    assert [path for path in home.corpora.rglob("*") if path.is_file()] == []
    return str(caught.value)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("name", PACKED)
def test_every_format_gives_the_same_text_in_every_packing(home: Home, tmp_path: Path, name: str, suffix: str) -> None:
    pack = COMPRESSIONS[suffix]
    data = pack(PACKED[name])
    assert stored(home, write(tmp_path / (name + suffix), data)) == {"text": LINES}
    if not name.endswith(".txt"):
        bare = write(tmp_path / "bare", data)  # Simulate a downloaded file, which may have no suffix.
        assert stored(home, bare, format=name.partition(".")[2]) == {"text": LINES}
    in_tar = tar_of({"folder/" + name + suffix: data})
    assert stored(home, write(tmp_path / ("a.tar" + suffix), pack(in_tar))) == {"text": LINES}
    assert stored(home, write(tmp_path / "a.zip", zip_of({"folder/" + name + suffix: data}))) == {"text": LINES}


@pytest.mark.parametrize("indent", [None, 1])
def test_json_may_be_a_list_or_one_object(home: Home, tmp_path: Path, indent: int | None) -> None:
    rows = [{"text": "one", "id": 1}, {"text": None}, {"text": "two"}]
    assert stored(home, write(tmp_path / "a.json", json.dumps(rows, indent=indent).encode())) == {"text": "one\ntwo\n"}
    assert stored(home, write(tmp_path / "b.json", json.dumps(rows[0], indent=indent).encode())) == {"text": "one\n"}


def test_a_json_value_that_is_too_large_says_how_to_convert_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "MAXIMUM_JSON_CHARACTERS", 1_000)
    rows = json.dumps([{"text": "one"}] * 100, indent=1).encode()
    refused(home, write(tmp_path / "a.json", rows), "more than 1,000 characters;\n.*jq")


@pytest.mark.parametrize(("name", "data"), [("a.jsonl", b'[{"text": "'), ("a.csv", b'text\n"')])
def test_a_table_in_one_line_is_not_read_whole(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    monkeypatch.setattr(table_files, "MAXIMUM_JSON_CHARACTERS", 1_000)
    refused(home, write(tmp_path / name, data + b"x" * 2_000 + b'"}]'), "of more than 1,000 characters")


def test_json_may_begin_with_a_blank_line(home: Home, tmp_path: Path) -> None:
    for number, value in enumerate(([{"text": "one"}], {"text": "one"})):
        data = b"\n" + json.dumps(value, indent=1).encode()
        assert stored(home, write(tmp_path / f"{number}.json", data)) == {"text": "one\n"}


def test_tables_without_the_column_name_it_also_if_they_are_several(home: Home, tmp_path: Path) -> None:
    for name in ("train", "test"):
        write(tmp_path / "in" / f"{name}.csv", b"id,body\n1,one\n")
    refused(home, tmp_path / "in", "has no column 'text'; it has: id, body;\nset corpus.column")


def test_a_bad_member_of_an_archive_is_left_out(home: Home, tmp_path: Path) -> None:
    data = {"a.txt": b"one\n", "package.json": b'{"name": "x"}', "prog": bytes(range(128, 256)) * 9}
    corpus = obtain(home, write(tmp_path / "a.zip", zip_of(data)))
    assert (corpus.folder / "text.txt").read_text() == "one\n"
    assert {one.name for one in corpus.left_out} == {"a.zip: package.json", "a.zip: prog"}


def test_a_file_that_is_read_up_to_its_damage_says_so(home: Home, tmp_path: Path) -> None:
    lines = b"a line of a log\n" * (3 << 16)
    write(tmp_path / "in" / "a.txt", b"one\n")
    write(tmp_path / "in" / "x.log", lines + bytes(5 << 20))
    corpus = obtain(home, tmp_path / "in")
    assert corpus.corpus_bytes > len(lines) // 2
    [cut] = corpus.left_out
    assert cut.read
    assert "; the text before it was read" in cut.reason


def test_a_page_keeps_its_own_encoding_among_files_of_another(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.txt", "süß\n".encode("cp1252"))
    write(tmp_path / "in" / "p.html", '<meta charset="utf-8"><p>Zürich</p>'.encode())
    text = stored(home, tmp_path / "in", encoding="cp1252")["text"]
    assert "süß" in text
    assert "Zürich" in text


def test_a_glob_without_a_suffix_reads_any_file_as_text(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.dat", b"one\n")
    write(tmp_path / "in" / "b.dat", b"two\n")
    refused(home, tmp_path / "in" / "*", r"has no text; it has .*a\.dat(.|\n)*corpus\.format=text")
    assert stored(home, tmp_path / "in" / "*", format="text") == {"text": "one\ntwo\n"}


def test_an_archive_is_read_again_with_another_markup_library(monkeypatch: pytest.MonkeyPatch) -> None:
    before = library_versions(["a.zip"])
    monkeypatch.setattr("rnnlm.extensions.documents.document_prose.installed", lambda library: "another")
    assert before != library_versions(["a.zip"])
    assert library_versions(["a.txt"]) == {}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text"', "line 2 is not JSON"),
        ("a.json", b'["text"]\n', "JSON str, expected one object"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("a.jsonl", b'{"text": "\\ud800"}', r"U\+D800.*\n.*undecodable"),
        ("a.jsonl", b'{"text": "\\u0000"}', "NUL"),
        ("a.csv", b'id,text\n1,"open\n', "line 2 is not csv"),
        ("a.csv", b"id,text\n1\n", "row 2 has 1 cells"),
        ("a.csv", b"", "empty"),
        ("a.parquet", b"PAR1 and no more", "Parquet"),
        ("a.parquet", PACKED["text.parquet"][:-20], "Parquet"),
        ("a.parquet", b"text\n", "Parquet"),
    ],
)
def test_errors_of_damaged_tables_name_the_place(
    home: Home, tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    if name.endswith("parquet") and data == b"text\n":
        refused(home, write(tmp_path / name, data), message, format="parquet")
    else:
        refused(home, write(tmp_path / name, data), message)


@pytest.mark.parametrize("encoding", ["hex", "rot13", "utf\0", "undefined", "klingon"])
def test_an_unknown_encoding_is_named(home: Home, tmp_path: Path, encoding: str) -> None:
    refused(home, write(tmp_path / "a.txt", b"ab"), r"corpus\.encoding", encoding=encoding)


def test_text_is_cleaned_as_asked_across_every_border(home: Home, tmp_path: Path) -> None:
    # The combining accent and the other digits of the number 1234 are in the next chunk of the file.
    accent = "e\n" * ((1 << 19) - 1) + "eE\u0301 12"
    digits = "\n" + "x\n" * ((1 << 19) - 1) + "34 Ⅻ\n"
    path = write(tmp_path / "a.txt", (accent + digits).encode())
    text = stored(home, path, normalization="NFC", lowercase=True, digits="###")["text"]
    assert text == "e\n" * ((1 << 19) - 1) + "eé ###\n" + "x\n" * ((1 << 19) - 1) + "### ⅻ\n"
    assert stored(home, path, normalization="NFKD")["text"].endswith("34 XII\n")
    assert obtain(home, path, lowercase=True).digest != obtain(home, path).digest


def test_several_files_of_a_split_are_joined_in_order_of_name(home: Home, tmp_path: Path) -> None:
    names = ("train-2.txt", "train-1.txt", "test.txt", "dev.txt", "notes.txt", "README")
    for name in names:
        write(tmp_path / "data" / name, f"{name}\n".encode())
    expected = {"train": "train-1.txt\ntrain-2.txt\n", "valid": "dev.txt\n", "test": "test.txt\n"}
    assert stored(home, tmp_path / "data") == expected
    assert stored(home, tmp_path / "data" / "*") == expected
    members = {f"x/{name}": f"{name}\n".encode() for name in names}
    assert stored(home, write(tmp_path / "a.zip", zip_of(members))) == expected
    in_archive_order = expected | {"train": "train-2.txt\ntrain-1.txt\n"}
    assert stored(home, write(tmp_path / "a.tar", tar_of(members))) == in_archive_order


def test_archives_of_a_glob_are_opened(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "data" / "train.tar", tar_of({"x.txt": b"one\n"}))
    write(tmp_path / "data" / "more.tar", tar_of({"train.txt": b"zero\n", "test.txt": b"two\n"}))
    assert stored(home, tmp_path / "data" / "*.tar") == {"train": "zero\none\n", "test": "two\n"}
    refused(Home(tmp_path / "other"), tmp_path / "data", "archives and no text; .*glob")


@pytest.mark.parametrize(("given", "carved"), [((), {"valid", "test"}), (("test",), {"valid"}), (("valid",), {"test"})])
def test_a_split_that_is_not_given_is_carved_from_training_text(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, given: tuple[str, ...], carved: set[str]
) -> None:
    for name in ("train", *given):
        write(tmp_path / "data" / f"{name}.txt", "".join(f"{name} {n}\n\n" for n in range(200)).encode())
    config = CorpusConfig(source=str(tmp_path / "data"), valid_share=0.2, test_share=0.2)
    with caplog.at_level(logging.INFO):
        corpus = obtain_corpus(home, config)
    assert "the documents of the training text are divided into splits" in caplog.text
    assert all(f"{split} 20.0%" in caplog.text for split in carved)
    from_train = {document.split for document in corpus_documents(corpus) if document.source_file == "train.txt"}
    assert from_train == {"train"} | carved
    for document in corpus_documents(corpus):
        if document.source_file != "train.txt":
            assert document.source_file == f"{document.split}.txt"


def test_held_out_text_without_training_text_is_refused_everywhere(home: Home, tmp_path: Path) -> None:
    members = {"valid.txt": b"a\n", "test.txt": b"b\n"}
    for name, data in members.items():
        write(tmp_path / "data" / name, data)
    message = r"valid \(.*valid\.txt\), test \(.*test\.txt\) but none for train"
    refused(home, tmp_path / "data", message)
    refused(home, tmp_path / "data" / "*.txt", message)
    refused(home, write(tmp_path / "a.tar", tar_of(members)), message)
    refused(home, write(tmp_path / "a.zip", zip_of(members)), message)
    with pytest.raises(CorpusError, match=message):
        check_source(CorpusConfig(source=str(tmp_path / "data")))


def test_one_file_keeps_its_sha256_and_its_bytes(home: Home, tmp_path: Path) -> None:
    data = "Zwölf Boxkämpfer\njagen\x0bVik\u2028tor\n\n".encode()
    corpus = obtain(home, write(tmp_path / "My Text.txt", data))
    assert corpus.digest == hashlib.sha256(data).hexdigest()
    assert (corpus.folder / "text.txt").read_bytes() == data
    assert (corpus.name, corpus.corpus_bytes) == ("my-text", len(data))


def test_line_ends_become_line_feeds_and_the_last_line_gets_one(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert stored(home, path) == {"text": "one\ntwo\nthree\n"}


def test_a_second_run_does_not_read_the_file_again(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\n")
    first = obtain(home, path)
    state = path.stat()

    def rewrite(data: bytes) -> None:
        path.write_bytes(data)
        # Size and time are restored, so the change is not noticed.
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    rewrite(b"two\n")
    again = obtain(home, path)
    assert (again.skipped, again.digest) == (True, first.digest)
    renamed = obtain(home, path, name="other")
    assert (renamed.skipped, renamed.name) == (True, "other")
    forget_verified(home)  # Do the same as `rnnlm run --verify`, which calls this function.
    assert stored(home, path) == {"text": "two\n"}
    assert obtain(home, path).skipped
    rewrite(b"one\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert stored(home, path) == {"text": "one\n"}


def test_every_setting_that_changes_the_text_is_remembered(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,body\n"A é 1",B\n'.encode())
    changes: list[dict[str, object]] = [
        {},
        {"column": "body"},
        {"format": "text"},
        {"encoding": "latin-1"},
        {"normalization": "NFD"},
        {"lowercase": True},
        {"digits": "#"},
    ]
    assert len({obtain(home, path, **change).digest for change in changes}) == len(changes)
    assert all(obtain(home, path, **change).skipped for change in changes)


def test_only_the_remains_of_killed_runs_are_removed(home: Home, tmp_path: Path) -> None:
    killed = write(home.corpora / ".incoming-killed" / "text.txt", b"half")
    running = write(home.corpora / ".incoming-running" / "text.txt", b"half")
    for path in (running, running.parent):
        os.utime(path, (0, 0))  # Simulate a download that has waited for its server for days.
    with home.lock("corpus-running"):
        obtain(home, write(tmp_path / "a.txt", b"one\n"))
    assert not killed.parent.exists()
    assert running.exists()


def test_sha256_is_of_one_file_as_downloaded(home: Home, tmp_path: Path) -> None:
    path = write(tmp_path / "data" / "a.txt.gz", COMPRESSIONS[".gz"](b"one\n"))
    refused(home, path, "sha256 .* expected 000000000000", sha256="0" * 64)
    refused(home, path.parent, r"corpus\.sha256", sha256="0" * 64)
    refused(home, "python-docs", r"corpus\.sha256", sha256="0" * 64)


def test_a_source_that_is_not_a_file_or_folder_is_refused(home: Home, tmp_path: Path) -> None:
    refused(home, tmp_path / "nothing.txt", r"nothing\.txt.*\n.*python-docs")
    for url in ("ftp://example.org/a.txt", "file:///etc/hostname", "s3://bucket/a"):
        refused(home, url, "expected an http or https URL")
    refused(home, "/dev/zero", "neither a file nor a folder")
    refused(home, "a" * 5000, "cannot be read|no such file")
    refused(home, "a\0b", "cannot be read|no such file")


PAGE = (
    b"<!DOCTYPE html><title>Sign in</title><nav>Home</nav><p>Sign in to go on.</p><p>Accept the terms.</p><p>End.</p>"
)
BEGINNINGS = [b"", b"<!-- a -->" * 40, b"\xef\xbb\xbf\n", b'<?xml version="1.0"?>\n', b"<!-- made\nby hand -->\n"]


@pytest.mark.parametrize("name", ["page.txt", "page.txt.gz", "page", "page.zip", "page.log", "page.aspx"])
@pytest.mark.parametrize("beginning", BEGINNINGS, ids=ascii)
def test_a_page_instead_of_text_is_read_and_told(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, beginning: bytes
) -> None:
    path = write(tmp_path / name, beginning + PAGE)
    assert stored(home, path)["text"] == "Sign in to go on.\n\nAccept the terms.\n\nEnd.\n\n"
    assert f"{name} (an HTML page, whose prose is read; the server may require a login)" in caplog.text


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.pdf", "a.docx", "a.epub", "a.rst"]
)
def test_a_page_instead_of_a_table_is_named(home: Home, tmp_path: Path, name: str) -> None:
    refused(home, write(tmp_path / name, PAGE), f"is an HTML page and not a {Path(name).suffix} file")


def test_many_comments_that_open_no_page_are_text(home: Home, tmp_path: Path) -> None:
    text = b"<!-- a -->" * 60 + b"<other>\n"
    assert stored(home, write(tmp_path / "a.txt", text))["text"] == text.decode()


@pytest.mark.parametrize("name", ["page.html", "page.htm", "page.xhtml", "page.md"])
def test_a_page_by_its_name_needs_no_word(home: Home, tmp_path: Path, name: str) -> None:
    assert obtain(home, write(tmp_path / name, PAGE)).left_out == ()
