"""Extract the sentences of a docstring, without code, doctests, tables and markup."""

import re
from collections.abc import Iterator

DOCSTRING_ROLE = re.compile(r":[\w:+.-]+:`~?([^`<]*?)(?:\s*<[^`]*>)?`")  # :func:`~os.walk` → os.walk
LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")  # `text <target>`_ → text
MARKUP = re.compile(r"`+_{0,2}|\*{1,2}(?=\S)|(?<=\S)\*{1,2}|\|(?=\S)|(?<=\S)\|")
UNDERLINE = re.compile(r"^\s*([-=~^\"'`#*+.:_])\1{2,}\s*$")
FIELD = re.compile(r"^\s*(:\w[^:]*:|\.\. |@\w+|[-*+•]\s*$|\|)")  # :param x:, directives, table rows
PARAMETER = re.compile(r"^\s*[\w.*, {}'\"\[\]-]+\s*:(\s|$)(?!.*[.!?]$)")  # numpydoc: "x : array_like"
BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|\(?[a-z]\))\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z])")
PROSE_WORD = re.compile(r"[^\W_]+(?:[-'’._][^\W_]+)*|[^\w\s]")
MINIMUM_WORDS = 4
LETTER_SHARE = 0.7  # of a sentence's words must consist of letters


def prose_sentences(docstring: str) -> Iterator[str]:
    """The sentences of a docstring as they are written, with single spaces between words."""
    for paragraph in docstring_paragraphs(docstring):
        for sentence in SENTENCE_END.split(plain(paragraph)):
            words = PROSE_WORD.findall(sentence)
            spelled = sum(word.isalpha() for word in words)
            signs = sum(not word[0].isalnum() for word in words)
            if (
                len(words) > MINIMUM_WORDS
                and words[-1] in ".!?"
                and words[0][0].isalpha()
                and spelled >= LETTER_SHARE * (len(words) - signs)
                and signs * 3 <= len(words)
            ):
                yield " ".join(sentence.split())


def docstring_paragraphs(docstring: str) -> Iterator[str]:
    """Prose lines joined to paragraphs. A bullet begins one; literal blocks (after `::`) are skipped."""
    gathered: list[str] = []
    literal_indent: int | None = None  # of the line before a literal block
    doctest = False
    for line in [*docstring.expandtabs().split("\n"), ""]:
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and line.strip():
            if indent > literal_indent:
                continue
            literal_indent = None
        if line.lstrip().startswith((">>>", "...", "$ ", "In [", "Out[")):
            doctest = True
        elif not line.strip():
            doctest = False
        if doctest or not line.strip() or UNDERLINE.match(line) or FIELD.match(line) or PARAMETER.match(line):
            if gathered:
                yield " ".join(gathered)
            gathered = []
            if line.lstrip().startswith(".. "):
                literal_indent = indent
            continue
        if BULLET.match(line) and gathered:
            yield " ".join(gathered)
            gathered = []
        text = BULLET.sub("", line).strip()
        if text.endswith("::"):
            literal_indent = indent
            text = text[:-1]
        gathered.append(text)


def plain(text: str) -> str:
    """The text without roles, links and emphasis."""
    return MARKUP.sub("", LINK.sub(r"\1", DOCSTRING_ROLE.sub(r"\1", text)))
