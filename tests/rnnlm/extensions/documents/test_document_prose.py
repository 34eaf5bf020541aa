"""Markdown, reStructuredText, HTML, PDF, docx and epub are converted to prose. Malicious documents are refused."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import rnnlm.extensions.documents.document_prose as document_prose_module
from rnnlm.extensions.documents.document_process import DocumentProcess
from rnnlm.extensions.documents.document_prose import (
    MAXIMUM_BYTES,
    DocumentError,
    document_prose,
    html_prose,
    markdown_prose,
    parsed_prose,
    rst_prose,
)
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, zip_of
from tests.rnnlm.corpora.test_file_formats import obtain, stored, write

MARKDOWN = """\
---
title: front matter
---
# A *bold* head

A paragraph with `code`, a [link](https://example.org) &amp; ![alt](p.png)
wrapped. <b>Inline</b>

- item one
- item two
  continued

```python
secret = 1
```

    indented code

| head | er |
|------|----|
| a b  | c  |

<div><script>bad()</script>in a block</div>

> quoted
"""
RST = """\
Title
=====

.. comment
.. include:: /etc/hostname
.. raw:: html

   <b>raw</b>

See :func:`~len`, :py:class:`name <target>` and *emphasis* with ``literal``
wrapped |sub|.

.. |sub| replace:: put in

.. note:: Noted.

.. code-block:: python

   secret = 1

Like this::

   secret = 2

>>> secret

* one
* two

====  ====
h 1   h 2
====  ====
a     b
====  ====

term
   definition
"""
HTML = """<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/hostname">]>
<html><head><title>title</title><style>p {}</style></head><body><nav>menu</nav>
<h1>Big &amp; <i>bold</i></h1><p>One<br>two &x; &nbsp;<b>th</b>ree<script>bad()</script> end
<table><tr><td>a<td>b<tr><td>c</table><ul><li>item<li>other</ul><pre>code</pre><!-- comment -->tail</body></html>"""


def pdf_of(*lines: str) -> bytes:
    """Return a PDF of one page with these lines."""
    shown = b" T* ".join(b"(" + line.encode("latin-1") + b") Tj" for line in lines)
    content = b"BT /F1 12 Tf 14 TL 72 720 Td " + shown + b" ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(data)
    return data + b"xref\n0 6\n0000000000 65535 f \n" + table + trailer


def lines_of(prose: str) -> list[str]:
    return [line for line in prose.split("\n") if line]


def test_markdown_keeps_headings_paragraphs_items_and_cells() -> None:
    assert lines_of(markdown_prose(MARKDOWN)) == [
        "A bold head",
        "A paragraph with code, a link & wrapped. Inline",
        "item one",
        "item two continued",
        "head er",
        "a b c",
        "in a block",
        "quoted",
    ]
    # Each paragraph is one line, with a blank line between paragraphs.
    assert markdown_prose("one\ntwo\n\nthree") == "one two\n\nthree\n\n"


def test_comments_in_markdown_are_left_out() -> None:
    assert markdown_prose("<!-- made by a script -->\n\nOne sentence.\n") == "One sentence.\n\n"
    assert html_prose("<!-- nothing else -->") == ""


def test_restructuredtext_keeps_prose_and_roles_and_includes_nothing() -> None:
    assert lines_of(rst_prose(RST)) == [
        "Title",
        "See len, name and emphasis with literal wrapped put in.",
        "Noted.",
        "Like this:",
        "one",
        "two",
        "h 1 h 2",
        "a b",
        "term",
        "definition",
    ]


def test_html_keeps_what_a_reader_reads_and_fetches_nothing() -> None:
    assert lines_of(html_prose(HTML)) == ["Big & bold", "One", "two &x; three end", "a b", "c", "item", "other", "tail"]


def test_a_page_declares_its_own_encoding(home: Home, tmp_path: Path) -> None:
    page = "<html><head><meta charset='windows-1251'></head><body>Он пришёл"
    assert stored(home, write(tmp_path / "a.html", page.encode("cp1251"))) == {"text": "Он пришёл\n\n"}
    unknown = "<html><head><meta charset='klingon'></head><body>Он пришёл"
    assert stored(home, write(tmp_path / "b.html", unknown.encode())) == {"text": "Он пришёл\n\n"}


def test_pdf_joins_lines_to_paragraphs(home: Home, tmp_path: Path) -> None:
    data = pdf_of("The hyphen-", "ated word", "and Well-", "Known names.")
    expected = {"text": "The hyphenated word and Well- Known names.\n\n"}
    assert stored(home, write(tmp_path / "a.pdf", data)) == expected
    # Without a suffix, the kind of the file is recognized by its first bytes.
    assert stored(home, write(tmp_path / "bare", data)) == expected
    assert stored(home, write(tmp_path / "a.pdf.gz", COMPRESSIONS[".gz"](data))) == expected


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/content.opf"/></rootfiles></container>'
    ),
    "OEBPS/content.opf": (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="two" href="b%20c.xhtml"/><item id="one" href="a.xhtml"/><item id="css" href="s.css"/></manifest>'
        '<spine><itemref idref="one"/><itemref idref="two"/></spine></package>'
    ),
    "OEBPS/a.xhtml": "<html><head><title>no</title></head><body><h1>Erstes</h1><p>Größe zählt.</p></body></html>",
    "OEBPS/b c.xhtml": "<html><body><p>The end.</p></body></html>",
}


def docx_of(body: str) -> bytes:
    document = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return zip_of({"[Content_Types].xml": b"<x/>", "word/document.xml": document.encode()})


def epub_of(parts: dict[str, str] = BOOK) -> bytes:
    return zip_of({name: content.encode() for name, content in parts.items()})


def test_docx_and_epub_give_their_paragraphs_in_reading_order(home: Home, tmp_path: Path) -> None:
    body = "<w:p><w:r><w:t>One </w:t></w:r><w:r><w:t>line</w:t><w:tab/><w:t>here.</w:t></w:r></w:p><w:p/>"
    folder = tmp_path / "data"
    write(folder / "a.docx", docx_of(body + "<w:p><w:r><w:t>Größe.</w:t></w:r></w:p>"))
    write(folder / "b.epub", epub_of())
    write(folder / "c.zip", zip_of({"d.epub": epub_of()}))
    book = "Erstes\n\nGröße zählt.\n\nThe end.\n\n"
    assert stored(home, folder / "*") == {"text": f"One line here.\n\nGröße.\n\n{book}{book}"}


TEXT_BOX = """<w:p xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:r><w:t>Around </w:t></w:r>
<mc:AlternateContent>
<mc:Choice><w:txbxContent><w:p><w:r><w:t>In the box.</w:t></w:r></w:p></w:txbxContent></mc:Choice>
<mc:Fallback><w:txbxContent><w:p><w:r><w:t>In the box.</w:t></w:r></w:p></w:txbxContent></mc:Fallback>
</mc:AlternateContent><w:r><w:t>it.</w:t></w:r></w:p>"""


def docx_lines(body: str) -> list[str]:
    return lines_of(document_prose("docx", docx_of(body), ""))


def test_each_text_of_a_docx_is_read_once() -> None:
    assert docx_lines(TEXT_BOX) == ["Around it.", "In the box."]
    moved = "<w:p><w:{0}><w:r><w:t>Moved.</w:t></w:r></w:{0}></w:p>"
    assert docx_lines(moved.format("moveFrom") + moved.format("moveTo")) == ["Moved."]
    deleted = "<w:p><w:r><w:t>Kept.</w:t></w:r><w:del><w:r><w:delText>Gone.</w:delText></w:r></w:del></w:p>"
    assert docx_lines(deleted) == ["Kept."]
    assert docx_lines("<w:p><w:r><w:t>well</w:t><w:noBreakHyphen/><w:t>known</w:t></w:r></w:p>") == ["well-known"]


def test_a_table_row_of_a_docx_is_one_line() -> None:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    row = "<w:tr>" + cell.format("a") + cell.format("b") + "</w:tr>"
    assert docx_lines(f"<w:tbl>{row}{row}</w:tbl>") == ["a b", "a b"]


def test_chapters_of_an_epub_may_be_beside_its_package() -> None:
    package = BOOK["OEBPS/content.opf"].replace("a.xhtml", "../text/a.xhtml")
    book = epub_of(BOOK | {"OEBPS/content.opf": package, "text/a.xhtml": "<p>Outside.</p>"})
    assert lines_of(document_prose("epub", book, "")) == ["Outside.", "The end."]


def test_a_zip_that_unpacks_to_too_much_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_prose_module, "MAXIMUM_UNPACKED_BYTES", 1_000)
    book = epub_of(BOOK | {"OEBPS/a.xhtml": "<p>" + "x" * 10_000})
    with pytest.raises(DocumentError, match=r"^unpacks to more than 1,000 bytes"):
        parsed_prose("epub", book, "")


def test_a_docx_resolves_no_entities(home: Home, tmp_path: Path) -> None:
    entity = '<!DOCTYPE d [<!ENTITY host SYSTEM "file:///etc/hostname">]>'
    document = f'{entity}<d xmlns:w="{WORD}"><w:p><w:t>name: &host;</w:t></w:p></d>'
    write(tmp_path / "data" / "a.docx", zip_of({"word/document.xml": document.encode()}))
    assert stored(home, tmp_path / "data") == {"text": "name:\n\n"}


def test_a_mixed_folder_end_to_end(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write(folder / "a.txt", b"plain\n")
    write(folder / "b.md", b"# Mark\n")
    write(folder / "c" / "d.rst", b"Re\n==\n")
    write(folder / "e.HTML", b"<p>Page")
    write(folder / "f.pdf", pdf_of("Portable"))
    write(folder / "g.csv", b"text\nrow\n")
    write(folder / "h.pdf", b"%PDF-1.4 and no more")
    write(folder / "i.md", b"![picture](p.png)\n")
    write(folder / "j.rst", b"")
    write(folder / "k.pdf", pdf_of())
    corpus = obtain(home, folder)
    text = (corpus.folder / "text.txt").read_text()
    assert lines_of(text) == ["plain", "Mark", "Re", "Page", "Portable", "row"]
    assert corpus.source_counts == {"text": 6}
    assert {one.name: one.reason for one in corpus.left_out} == {
        "h.pdf": "damaged pdf (PdfStreamError: Stream has ended unexpectedly)",
        "i.md": "contains no prose",
        "j.rst": "contains no prose",
        "k.pdf": "contains no prose; it may consist of pictures of pages",
    }
    members = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    packed = obtain(home, write(tmp_path / "a.zip", zip_of(members)))
    assert (packed.folder / "text.txt").read_text() == text
    assert {one.name for one in packed.left_out} == {f"a.zip: {name}" for name in ("h.pdf", "i.md", "j.rst", "k.pdf")}


@pytest.mark.parametrize(("suffix", "kind"), [("md", "markdown"), ("rst", "rst")])
def test_a_document_that_is_too_large_is_left_out(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, kind: str
) -> None:
    monkeypatch.setitem(MAXIMUM_BYTES, kind, 100)
    write(tmp_path / "data" / f"a.{suffix}", b"word " * 21)
    write(tmp_path / "data" / f"b.{suffix}", b"word " * 20)
    (left_out,) = obtain(home, tmp_path / "data").left_out
    assert (left_out.name, left_out.reason[:23]) == (f"a.{suffix}", "has more than 100 bytes")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("markdown", "[" * 20_000),
        ("markdown", "> " * 5_000 + "deep"),
        ("rst", "* " * 500 + "deep"),
        ("html", "<div>" * 20_000 + "deep"),
        ("html", "<b" + " x=1" * 20_000),
        ("html", "\ud800"),
    ],
)
def test_hostile_markup_gives_prose_or_a_reason(kind: str, text: str) -> None:
    try:
        assert isinstance(document_prose(kind, b"", text), str)
    except DocumentError as error:
        assert len(str(error)) < 200


def test_without_its_extra_a_pdf_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_pypdf(name: str, *more: Any) -> Any:
        return None if name == "pypdf" else find_spec(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without_pypdf)
    with pytest.raises(DocumentError, match="only read with the optional dependencies"):
        parsed_prose("pdf", pdf_of("Portable"), "")


ATTRIBUTES = "".join(f" a{number}='1'" for number in range(60_000))
HOSTILE_PAGE = f"<p{ATTRIBUTES}>text</p>"
SLOW_DOCUMENTS: dict[str, bytes] = {  # Documents for which a parser needs from ten seconds to hours.
    "attributes.html": HOSTILE_PAGE.encode(),
    "attributes.md": HOSTILE_PAGE.encode(),
    "quotes.rst": b"`a " * 66_000,
    "links.rst": b"a_ " * 66_000,
    "attributes.epub": epub_of(BOOK | {"OEBPS/a.xhtml": HOSTILE_PAGE}),
    "lines.pdf": pdf_of(*["x"] * 200_000),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW_DOCUMENTS)
def test_a_document_that_takes_too_long_is_left_out(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for setting in ("SECONDS", "SECONDS_PER_MEGABYTE"):
        monkeypatch.setattr(document_prose_module, setting, 0.7)
    monkeypatch.setattr(document_prose_module, "LEAST_SECONDS", {})
    write(tmp_path / "data" / name, SLOW_DOCUMENTS[name])
    write(tmp_path / "data" / "z.html", b"<p>read</p>")
    corpus = obtain(home, tmp_path / "data")
    assert {one.name: one.reason[:18] for one in corpus.left_out} == {name: "takes longer than "}
    assert lines_of((corpus.folder / "text.txt").read_text()) == ["read"]


@pytest.mark.long
def test_sigterm_ends_the_reading_of_a_document_at_once(tmp_path: Path) -> None:
    page = write(tmp_path / "page.html", HOSTILE_PAGE.encode())
    environment = {**os.environ, "RNNLM_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "flows.command_line", "inspect", str(page)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:

        def readers() -> list[psutil.Process]:
            return [child for child in psutil.Process(process.pid).children() if child.cpu_times().user > 2]

        assert poll_until(lambda: bool(readers()), 60, 0.1)
        [reader] = readers()
        process.terminate()
        begun = time.monotonic()
        _, said = process.communicate(timeout=30)
    assert time.monotonic() - begun < 3
    assert process.returncode == 143
    assert "interrupted" in said
    assert not reader.is_running()


def test_a_parser_that_crashes_costs_one_document() -> None:
    process = DocumentProcess("keyword")  # The module `keyword` ends without a reply, like a crashed process.
    with pytest.raises(DocumentError, match="damaged html: its parser ended with code 0"):
        process.prose("html", b"", "<p>text</p>", 1.0)
