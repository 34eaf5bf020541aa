"""Tables are aligned on the terminal. Untrusted text has no effect in Markdown."""

import logging
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rnnlm.display.text_layout import (
    Code,
    TerminalFormatter,
    markdown_code,
    markdown_table,
    shorten,
    terminal_text,
    visible,
)


def test_a_long_text_is_cut_and_cannot_steer_the_terminal() -> None:
    assert shorten("a\x1b[31mb") == "a\\x1b[31mb"
    assert shorten("x" * 80) == "x" * 71 + "…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\x1b[2Jb\x9b2J\x7f\r\0", "a\\x1b[2Jb\\x9b2J\\x7f\\r\\x00"),
        # The spaces that belong to a language or to typography are kept.
        ("日本\u3000語, oui\u00a0!", "日本\u3000語, oui\u00a0!"),
        # Direction overrides are escaped, because their effect is not limited to a word.
        ("a\u202eb\u2066c\u2028d", "a\\u202eb\\u2066c\\u2028d"),
        ("\udce9", "\\udce9"),
        ("e\u0301 👩\u200d🔬", "e\u0301 👩\u200d🔬"),
    ],
    ids=ascii,
)
def test_text_for_a_terminal_keeps_lines_tabs_and_spaces(text: str, shown: str) -> None:
    assert terminal_text(text) == shown
    assert terminal_text(shown) == shown


def test_a_log_line_cannot_steer_the_terminal() -> None:
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        record = logging.LogRecord("rnnlm", logging.WARNING, "", 1, "unknown: %s", ("\x1b[31m",), sys.exc_info())
    shown = TerminalFormatter(logging.Formatter("%(message)s")).format(record)
    assert shown.startswith("unknown: \\x1b[31m\nTraceback")
    assert "\x1b" not in shown


NAMES = [
    "plain.txt",
    "a`b.txt",
    "``.txt",
    "`",
    "a|b.txt",
    "`|`",
    "a\\|b.txt",
    "a\nb.txt",
    "a\n\n# heading",
    "](https://example.org)",
    "<img src=x>",
    "**bold** _it_ ~~gone~~",
    "a\x1b[2Jb",
]


def cells(markdown: str) -> list[str]:
    """Return the texts of the table's cells as a reader sees them.

    Raise an error if a cell contains active Markdown.
    """
    found = MarkdownIt("commonmark").enable("table").parse(markdown)
    inline = [token for token in found if token.type == "inline"]
    assert {token.type for token in found if token.level == 0} <= {"table_open", "table_close"}
    for token in inline:
        assert {child.type for child in token.children or []} <= {"text", "code_inline", "text_special"}
    return ["".join(child.content for child in token.children or []) for token in inline]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_of_a_file_is_text_in_a_table(name: str) -> None:
    table = markdown_table([{"code": Code(name), "path": Path(name), "text": name, "last": "end"}])
    assert cells(table) == [
        "code",
        "path",
        "text",
        "last",
        visible(name),
        visible(str(Path(name))),
        visible(name),
        "end",
    ]


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1))
def test_any_name_stays_in_its_cell(name: str) -> None:
    assert cells(markdown_table([{"code": Code(name), "last": "end"}]))[2:] == [visible(name), "end"]


@pytest.mark.parametrize("name", [name for name in NAMES if "|" not in name], ids=ascii)
def test_code_in_a_line_is_code(name: str) -> None:
    (paragraph,) = (token for token in MarkdownIt().parse(f"- source {markdown_code(name)}; end") if token.children)
    assert [child.content for child in paragraph.children or []] == ["source ", visible(name), "; end"]
