"""Extract the prose of documents with markup: Markdown, reStructuredText, HTML, PDF, Word's docx and epub.

Each paragraph, heading, list item and table row becomes one line, followed by a blank line. Code blocks, scripts,
navigation and pictures are left out. Documents are not trusted: no external content is fetched or included, and sizes
are limited.
"""

import io
import logging
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from rnnlm.corpora.document_formats import DocumentError
from rnnlm.corpora.split_names import DOCUMENT_SUFFIXES, is_archive_name, suffix_of
from rnnlm.extensions.documents.document_process import DocumentProcess, answer_requests
from rnnlm.runtime.extras import missing_packages

# The largest size of a document, which is read into memory completely. The limit for rst is lower than the limits for
# other kinds, because docutils reads only about 200 kB a second.
MAXIMUM_BYTES = {"rst": 4 << 20} | dict.fromkeys(("markdown", "html", "pdf", "docx", "epub"), 32 << 20)
MAXIMUM_UNPACKED_BYTES = 64 << 20  # The largest size of the unpacked XML in a docx or epub.
MAXIMUM_PAGES = 20_000  # The largest number of pages of a PDF.
# The limit for reading a document in seconds of computing time, so that the load of the machine does not matter.
SECONDS = 10.0
# The minimum limit for PDF is higher than for other kinds, because even a small file may have a thousand pages.
LEAST_SECONDS = {"pdf": 60.0}
# The number of seconds that each megabyte of a document adds to the limit. docutils, the slowest parser, needs half of
# this time for ordinary text.
SECONDS_PER_MEGABYTE = 10.0
FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# A pattern for a role such as :func:`name <target>`.
ROLE = re.compile(r"(?::[a-zA-Z][\w+.-]*)+:`[~!]?([^`<]*[^`<\s])\s*(?:<[^`>]*>)?`")
# A pattern for a DOCTYPE that defines its own entities.
DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*\[.*?\]\s*>", re.IGNORECASE | re.DOTALL)
DECLARED_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
# fmt: off
DROPPED_ELEMENTS = frozenset((
    "audio", "button", "canvas", "head", "iframe", "math", "nav", "noscript", "object", "pre", "script", "select",
    "style", "svg", "template", "textarea", "video",
))
INLINE_ELEMENTS = frozenset((  # The elements that do not end a line, unlike all others.
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
    "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "td", "th",
    "time", "tt", "u", "var", "wbr",
))
# fmt: on
TABLE_CELLS = frozenset(("td", "th"))
# Elements that repeat text: Word stores a text box a second time for older programs, and a moved paragraph also at its
# old place.
REPEATED_IN_DOCX = ("{*}Fallback", "{*}moveFrom")
TEXT_IN_DOCX = ("{*}t", "{*}tab", "{*}br", "{*}noBreakHyphen")
END_OF_WORD = re.compile(r"[^\W\d_]-$")  # A pattern for a word that is hyphenated at the end of a line.


def document_prose(kind: str, data: bytes, text: str) -> str:
    """Return the prose of a document, read from `data` if its kind is one of BINARY_KINDS, otherwise from `text`.

    Raise DocumentError if there is no prose or if reading takes too long.
    """
    size = max(len(data), len(text))
    seconds = LEAST_SECONDS.get(kind, SECONDS) + SECONDS_PER_MEGABYTE * size / 1e6
    data, text = (data, "") if kind in BINARY_KINDS else (b"", text)
    return PROCESS.prose(kind, data, text, seconds)


def parsed_prose(kind: str, data: bytes, text: str) -> str:
    """Return the same prose as document_prose(), but parse the document in this process and without a time limit."""
    try:
        prose = BINARY_KINDS[kind](data) if kind in BINARY_KINDS else READERS[kind](text)
    except DocumentError:
        raise
    except Exception as error:  # The libraries raise errors of many types for damaged documents.
        reason = str(error).partition("\n")[0][:80]
        raise DocumentError(f"damaged {kind} ({type(error).__name__}{f': {reason}' if reason else ''})") from error
    prose = prose.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if not prose.strip():
        scan = "; it may consist of pictures of pages" if kind == "pdf" else ""
        raise DocumentError(f"contains no prose{scan}")
    return prose


def one_line(text: str) -> str:
    return " ".join(text.split())


def joined(blocks: Iterable[str]) -> str:
    """Return the blocks as lines, each followed by a blank line, so that a corpus has a paragraph for each block."""
    return "".join(f"{line}\n\n" for line in map(one_line, blocks) if line)


def markdown_prose(text: str) -> str:
    """Return the prose of a Markdown text, which may contain tables and HTML. It is parsed as CommonMark."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return joined(markdown_blocks(parser.parse(FRONT_MATTER.sub("", text.replace("\r\n", "\n"), count=1))))


def markdown_blocks(tokens: Iterable[Any]) -> Iterator[str]:
    row: list[str] | None = None
    for token in tokens:
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            yield " ".join(row or ())
            row = None
        elif token.type == "html_block":
            yield from html_blocks(token.content)
        elif token.type == "inline":
            content = inline_text(token.children or ())
            if row is None:
                yield content
            else:
                row.append(content)


def inline_text(tokens: Iterable[Any]) -> str:
    """Return the words of a Markdown line, without pictures and tags."""
    spaces = {"softbreak", "hardbreak"}
    said = {"text", "text_special", "code_inline"}
    return "".join(" " if token.type in spaces else token.content if token.type in said else "" for token in tokens)


def rst_prose(text: str) -> str:
    """Return the prose of reStructuredText, without includes and raw parts.

    A role of Sphinx is replaced by its text.
    """
    from docutils import nodes
    from docutils.core import publish_doctree

    settings = {
        "_disable_config": True,
        "file_insertion_enabled": False,
        "raw_enabled": False,
        "docinfo_xform": False,
        "doctitle_xform": False,
        "report_level": 5,  # docutils reports no errors, because it does not know the directives of Sphinx.
        "halt_level": 5,
        "line_length_limit": 1_000_000,
        "warning_stream": io.StringIO(),
    }
    document = publish_doctree(text, settings_overrides=settings)
    left_out = (
        nodes.comment,
        nodes.literal_block,
        nodes.doctest_block,
        nodes.math_block,
        nodes.raw,
        nodes.substitution_definition,
        nodes.system_message,
    )
    prose = (nodes.paragraph, nodes.title, nodes.rubric, nodes.term, nodes.caption, nodes.attribution, nodes.line)

    def blocks(node: Any) -> Iterator[str]:
        pending = [node]
        while pending:
            node = pending.pop()
            if isinstance(node, left_out) or "contents" in node.get("classes", ()):
                continue
            if isinstance(node, prose):
                yield ROLE.sub(r"\1", node.astext())
            elif isinstance(node, nodes.row):
                yield " ".join(ROLE.sub(r"\1", paragraph.astext()) for paragraph in node.findall(nodes.paragraph))
            else:
                pending += [child for child in reversed(node.children) if isinstance(child, nodes.Element)]

    return joined(blocks(document))


def html_prose(text: str) -> str:
    """Return the visible text of an HTML page, without navigation and preformatted text."""
    return joined(html_blocks(text))


def html_blocks(text: str) -> Iterator[str]:
    from lxml import etree, html

    if not text.strip():
        return
    parser = html.HTMLParser(
        encoding="utf-8", no_network=True, huge_tree=False, remove_comments=True, remove_pis=True, recover=True
    )
    content = DOCTYPE.sub("", text, count=1).encode("utf-8", "replace")
    try:
        root = html.document_fromstring(content, parser=parser, ensure_head_body=True)
    except etree.ParserError:  # The page consists only of comments.
        return
    words: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        name = element.tag if isinstance(element.tag, str) else ""
        dropped = name in DROPPED_ELEMENTS
        if name not in INLINE_ELEMENTS and not (dropped and name not in ("nav", "pre")):
            yield "".join(words)
            words = []
        elif name in TABLE_CELLS:
            words.append(" ")
        if event == "start" and dropped:
            walk.skip_subtree()
        elif event == "start":
            words.append(element.text or "")
        if event == "end":
            words.append(element.tail or "")
    yield "".join(words)


def declared_charset(head: bytes) -> str | None:
    """Return the encoding that an HTML page declares in its head, or None if Python does not support it."""
    found = DECLARED_CHARSET.search(head)
    if found is None:
        return None
    name = found[1].decode("ascii")
    try:
        return None if "\x00" in "x".encode(name).decode("latin-1") else name
    except (LookupError, ValueError, UnicodeError):
        return None


def pdf_prose(data: bytes) -> str:
    """Return the text of a PDF's pages, with lines joined to paragraphs. The `documents` extra is needed."""
    if missing_packages("documents"):
        raise DocumentError('is only read with the optional dependencies `documents`: pip install ".[documents]"')
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted:
        raise DocumentError("is encrypted")
    if len(reader.pages) > MAXIMUM_PAGES:
        raise DocumentError(f"has more than {MAXIMUM_PAGES:,} pages")
    return joined(block for page in reader.pages for block in paragraphs_of_page(page.extract_text()))


def paragraphs_of_page(text: str) -> Iterator[str]:
    """Yield the paragraphs of a page, which end at blank lines. Words hyphenated at line ends are joined again."""
    held = ""
    for line in [*text.splitlines(), ""]:
        line = line.strip()
        if not line:
            yield held
            held = ""
        elif END_OF_WORD.search(held) and line[0].islower():
            held = held[:-1] + line
        else:
            held = f"{held} {line}" if held else line


class ZipParts:
    """The files in a docx or epub archive. XML is parsed without entities and without network access."""

    def __init__(self, data: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(data))
        self.bytes_left = MAXIMUM_UNPACKED_BYTES

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raise DocumentError if the total size of the files read so far is too large."""
        with self.archive.open(name) as file:
            content = file.read(self.bytes_left + 1)
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            raise DocumentError(f"unpacks to more than {MAXIMUM_UNPACKED_BYTES:,} bytes")
        return content

    def xml(self, name: str) -> Any:
        """Return the root element of an XML file."""
        from lxml import etree

        return etree.fromstring(self.read(name), etree.XMLParser(resolve_entities=False, no_network=True))


def docx_prose(data: bytes) -> str:
    """Return the text of the paragraphs in the body of a Word document. The paragraphs of a table row form one line."""
    body = ZipParts(data).xml("word/document.xml")
    for repeated in list(body.iter(*REPEATED_IN_DOCX)):
        repeated.getparent().remove(repeated)
    lines = groupby(body.iter("{*}p"), key=lambda paragraph: next(paragraph.iterancestors("{*}tr"), paragraph))
    return joined(" ".join(map(docx_paragraph, paragraphs)) for _, paragraphs in lines)


def docx_paragraph(paragraph: Any) -> str:
    """Return the text of a paragraph. Text boxes in it are left out, because they have separate paragraphs."""
    own = (part for part in paragraph.iter(*TEXT_IN_DOCX) if next(part.iterancestors("{*}p")) is paragraph)
    return "".join("-" if part.tag.endswith("}noBreakHyphen") else part.text or " " for part in own)


def epub_prose(data: bytes) -> str:
    """Return the text of the chapters of an epub, in reading order."""
    parts = ZipParts(data)
    (package, *_) = parts.xml("META-INF/container.xml").iter("{*}rootfile")
    path = package.get("full-path")
    root = parts.xml(path)
    files = {item.get("id"): item.get("href") for item in root.iter("{*}item")}
    chapters = (unquote(files[item.get("idref")]) for item in root.iter("{*}itemref"))
    folder = posixpath.dirname(path)
    pages = (parts.read(posixpath.normpath(posixpath.join(folder, chapter))) for chapter in chapters)
    return "".join(html_prose(page.decode("utf-8", "replace")) for page in pages)


PROCESS = DocumentProcess("rnnlm.extensions.documents.document_prose")
BINARY_KINDS: dict[str, Callable[[bytes], str]] = {"pdf": pdf_prose, "docx": docx_prose, "epub": epub_prose}
READERS: dict[str, Callable[[str], str]] = {"markdown": markdown_prose, "rst": rst_prose, "html": html_prose}
MARKUP_LIBRARIES = {
    "markdown": ("markdown-it-py", "lxml"),
    "rst": ("docutils",),
    "pdf": ("pypdf",),
    **dict.fromkeys(("html", "docx", "epub"), ("lxml",)),
}


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the libraries that extract the text of the given files, or "" for a missing library.

    For an archive, the versions of all libraries are returned, because it may contain any kind of document.
    """
    kinds = set()
    for name in names:
        kinds |= set(MARKUP_LIBRARIES) if is_archive_name(name) else {DOCUMENT_SUFFIXES.get(suffix_of(name), "")}
    kinds.discard("")
    return {library: installed(library) for kind in sorted(kinds) for library in MARKUP_LIBRARIES[kind]}


def installed(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    answer_requests(parsed_prose)
