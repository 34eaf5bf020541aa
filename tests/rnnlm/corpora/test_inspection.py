"""`rnnlm inspect` shows what a run would read, and stores nothing."""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora import inspection
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.inspection import Inspection, inspect_source
from rnnlm.corpora.splits import corpus_documents
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.test_file_formats import write
from tests.rnnlm.extensions.documents.test_document_prose import pdf_of

ROOT = Path(__file__).resolve().parents[3]


def inspected(source: object, **settings: object) -> Inspection:
    return inspect_source(PipelineConfig.model_validate({"corpus": {"source": str(source)}, **settings}))


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "mixed"
    write(folder / "a.txt", b"one line\n" * 3 + b"another\n" + b"a third\n")
    write(folder / "b" / "c.md", b"# Head\n\nprose here\n")
    write(folder / "d.pdf", pdf_of("Portable"))
    write(folder / "e.txt", "Он\n".encode("utf-16"))
    write(folder / "f.csv", b"text\nrow\n")
    write(folder / "cut.pdf", b"%PDF-1.4 and no more")
    write(folder / "chart.png", b"\x89PNG")
    write(folder / ".env", b"SECRET=1")
    return folder


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the output of `rnnlm inspect`, after checking that its exit code is 2 if a run would end with an error."""
    code = main(["inspect", *arguments])
    output = capsys.readouterr().out
    refused = json.loads(output)["refusal"] is not None if "--json" in arguments else "a run would end with" in output
    assert code == (2 if refused else 0)
    return output


def test_a_mixed_folder(home: Home, mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, str(mixed)).splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "mixed: 6 files to read" in text
    assert "read as text 2, markdown 1, pdf 1, csv 1" in text
    assert "encodings utf-8 3, utf-16 1" in text
    # The files have 5 + 2 + 1 + 1 + 1 lines, and each of the 3 paragraphs is followed by a blank line.
    assert "15 words, 13 lines" in text
    assert "scripts Latin" in text
    assert "Cyrillic" in text
    assert "about a minute of rnnlm run" in text
    assert "left out: 3" in text
    assert "hidden: .env" in text
    assert "damaged pdf (PdfStreamError: Stream has ended unexpectedly): cut.pdf" in text
    assert not home.corpora.exists()


def test_inspection_agrees_with_the_corpus_stage(home: Home, mixed: Path) -> None:
    found = inspected(mixed)
    corpus = obtain_corpus(home, CorpusConfig(source=str(mixed)))
    documents = [document.split for document in corpus_documents(corpus)]
    assert found.documents == {split: documents.count(split) for split in ("train", "valid", "test")}
    assert found.text_bytes == corpus.corpus_bytes
    assert found.left_out == corpus.left_out


def test_inspection_shows_the_error_of_a_run(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(write(tmp_path / "one.txt", b"just one line\n")))
    assert "this text has only 1 document; at least 3 different ones" in " ".join(text.split())
    assert "time" not in text
    text = shown(capsys, str(write(tmp_path / "empty.txt", b" \n")))
    assert "is empty; expected text" in " ".join(text.split())
    text = shown(capsys, str(write(tmp_path / "a.jsonl", b"{\n")))
    assert "line 1 is not JSON" in " ".join(text.split())
    assert main(["inspect", str(tmp_path / "nothing.txt")]) == 2
    assert main(["inspect", "python-docs"]) == 2
    assert "expected a file, a folder or a glob" in capsys.readouterr().err
    with pytest.raises(CorpusError, match="inspect reads"):
        inspected("https://example.org/a.txt")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt.gz", gzip.compress(b"a b c\n" * 12_000_000, 9), "unpacks to more than 200 times its size"),
        ("b.txt.gz", gzip.compress(random.Random(0).randbytes(3_000_000).hex().encode())[:-100_000], "damaged"),
        ("c.jsonl", b'{"text": "a b c"}\n' * 100_000 + b"{\n", "line 100001 is not JSON"),
    ],
)
def test_what_ends_a_run_in_the_middle_of_a_text_is_said(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, reason: str
) -> None:
    """`rnnlm inspect` and the corpus stage refuse a source with the same reason.

    A packed file is refused even if there is another file next to it.
    """
    source = write(tmp_path / "texts" / name, data)
    for place in (source, source.parent) if source.suffix == ".gz" else (source,):
        assert reason in " ".join(shown(capsys, str(place)).split())
        with pytest.raises(CorpusError, match=reason):
            obtain_corpus(home, CorpusConfig(source=str(place)))
        write(source.parent / "other.txt", b"one\ntwo\nthree\n")


def test_advice_fits_the_text(home: Home, tmp_path: Path) -> None:
    chinese = "".join("".join(chr(0x4E00 + (n * 7 + i) % 300) for i in range(9)) + "\n" for n in range(99))
    advice = inspected(write(tmp_path / "zh.txt", chinese.encode() * 40), tokenizer={"kind": "word"}).advice
    assert "tokenizer.kind=bpe or tokenizer.kind=char" in " ".join(advice)
    # The default tokenizer is bpe, so there is no advice to use it.
    assert "tokenizer.kind" not in " ".join(inspected(tmp_path / "zh.txt").advice)
    wrapped = "".join(f"word{n} of a line that ends at a width and goes on as {n}\n" for n in range(5_000))
    assert inspected(write(tmp_path / "w.txt", wrapped.encode())).advice == (
        "its lines look wrapped at a fixed width: set sequences.mode=stream",
    )


@pytest.mark.long
def test_only_the_beginning_of_a_large_text_is_inspected(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "INSPECTED_BYTES", 1 << 20)
    for name in ("a.txt", "b.txt"):
        write(tmp_path / "data" / name, b"".join(b"line %d\n" % number for number in range(120_000)))
    found = inspected(tmp_path / "data")
    assert (found.whole, found.texts, found.files) == (False, 1, 2)
    assert found.text_bytes < 3 << 20


@pytest.mark.long
def test_splits_of_large_files_are_not_counted_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inspection, "INSPECTED_BYTES", 1 << 16)
    for name, copies in (("test", 10_000), ("train", 100)):
        write(tmp_path / "in" / f"{name}.txt", b"a line of text\n" * copies)
    found = inspected(tmp_path / "in")
    assert found.refusal is None
    assert not any(found.documents.values())
    assert "documents" not in shown(capsys, str(tmp_path / "in"))


@pytest.mark.long
def test_inspection_loads_neither_torch_nor_prefect(mixed: Path, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom flows.command_line import main\n"
        f"assert main(['inspect', {str(mixed)!r}]) == 0\n"
        "print(sorted({'torch', 'prefect', 'mlflow', 'duckdb'} & set(sys.modules)), file=sys.stderr)"
    )
    environment = {"PYTHONPATH": str(ROOT), "RNNLM_HOME": str(tmp_path / "home"), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
