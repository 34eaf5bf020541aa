"""Prose of documents with markup: Markdown, reStructuredText, HTML and PDF.

Each paragraph, heading, list item and table row becomes one line, with a blank line after it. Code blocks, scripts,
navigation and pictures are left out. Documents are not trusted: nothing is fetched or included, and size is bounded.
"""

import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rnnlm.corpora.split_names import DOCUMENT_SUFFIXES, suffix_of
from rnnlm.runtime.extras import missing_packages

# A document is read whole; docutils reads about 200 kB a second.
MAXIMUM_BYTES = {"markdown": 32 << 20, "rst": 4 << 20, "html": 32 << 20, "pdf": 32 << 20}
MAXIMUM_PAGES = 20_000  # of a PDF
FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
ROLE = re.compile(r"(?::[a-zA-Z][\w+.-]*)+:`[~!]?([^`<]*[^`<\s])\s*(?:<[^`>]*>)?`")  # :func:`name <target>`
DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*\[.*?\]\s*>", re.IGNORECASE | re.DOTALL)  # with entities of its own
DECLARED_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
# fmt: off
DROPPED_ELEMENTS = frozenset((
    "audio", "button", "canvas", "head", "iframe", "math", "nav", "noscript", "object", "pre", "script", "select",
    "style", "svg", "template", "textarea", "video",
))
INLINE_ELEMENTS = frozenset((  # all others end a line
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
    "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "td", "th",
    "time", "tt", "u", "var", "wbr",
))
# fmt: on
TABLE_CELLS = frozenset(("td", "th"))
END_OF_WORD = re.compile(r"[^\W\d_]-$")  # a word divided at the end of a line


class DocumentError(Exception):
    """The reason why a document cannot be read. The document is listed, and the other files are read."""


def document_prose(kind: str, data: bytes, text: str) -> str:
    """The prose of a document. kind: a key of READERS, or pdf, which is read from `data`. DocumentError if none."""
    try:
        prose = pdf_prose(data) if kind == "pdf" else READERS[kind](text)
    except DocumentError:
        raise
    except Exception as error:  # each library raises many types on damaged documents
        reason = str(error).partition("\n")[0][:80]
        raise DocumentError(f"damaged {kind} ({type(error).__name__}{f': {reason}' if reason else ''})") from error
    prose = prose.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if not prose.strip():
        scan = " (pictures of pages?)" if kind == "pdf" else ""
        raise DocumentError(f"holds no prose{scan}")
    return prose


def one_line(text: str) -> str:
    return " ".join(text.split())


def joined(blocks: Iterable[str]) -> str:
    """Each block on a line, with a blank line after it: a paragraph of the corpus."""
    return "".join(f"{line}\n\n" for line in map(one_line, blocks) if line)


def markdown_prose(text: str) -> str:
    """Text of CommonMark with tables. HTML in it is read as HTML."""
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
    """The words of a Markdown line, without pictures and tags."""
    spaces = {"softbreak", "hardbreak"}
    said = {"text", "text_special", "code_inline"}
    return "".join(" " if token.type in spaces else token.content if token.type in said else "" for token in tokens)


def rst_prose(text: str) -> str:
    """Text of reStructuredText, without includes and raw parts. Sphinx's roles give their text."""
    from docutils import nodes
    from docutils.core import publish_doctree

    settings = {
        "_disable_config": True,
        "file_insertion_enabled": False,
        "raw_enabled": False,
        "docinfo_xform": False,
        "doctitle_xform": False,
        "report_level": 5,  # Sphinx's directives are unknown here: no reports
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
    """Text of the elements that a reader sees, without navigation and preformatted text."""
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
    except etree.ParserError:  # nothing but comments
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
    """The encoding that an HTML page declares for itself, if Python knows it."""
    found = DECLARED_CHARSET.search(head)
    if found is None:
        return None
    name = found[1].decode("ascii")
    try:
        return None if "\x00" in "x".encode(name).decode("latin-1") else name
    except (LookupError, ValueError, UnicodeError):
        return None


def pdf_prose(data: bytes) -> str:
    """Text of a PDF's pages, with lines joined to paragraphs. Needs the extra `documents`."""
    if missing_packages("documents"):
        raise DocumentError('needs the extra documents: pip install ".[documents]"')
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted:
        raise DocumentError("is encrypted")
    if len(reader.pages) > MAXIMUM_PAGES:
        raise DocumentError(f"has more than {MAXIMUM_PAGES:,} pages")
    return joined(block for page in reader.pages for block in paragraphs_of_page(page.extract_text()))


def paragraphs_of_page(text: str) -> Iterator[str]:
    """Lines joined up to a blank line; a word that is divided at the end of a line is joined."""
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


READERS: dict[str, Callable[[str], str]] = {"markdown": markdown_prose, "rst": rst_prose, "html": html_prose}
MARKUP_LIBRARIES = {"markdown": ("markdown-it-py", "lxml"), "rst": ("docutils",), "html": ("lxml",), "pdf": ("pypdf",)}


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Libraries that the prose of these files depends on, with their versions; "" if one is not installed."""
    kinds = {DOCUMENT_SUFFIXES[suffix] for suffix in map(suffix_of, names) if suffix in DOCUMENT_SUFFIXES}
    return {library: installed(library) for kind in sorted(kinds) for library in MARKUP_LIBRARIES[kind]}


def installed(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
