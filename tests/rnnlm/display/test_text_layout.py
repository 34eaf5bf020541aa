"""Tables line up on the terminal, and in Markdown a stranger's text stays text."""

from rnnlm.display.text_layout import shorten


def test_a_long_text_is_cut_and_cannot_steer_the_terminal() -> None:
    assert shorten("a\x1b[31mb") == "a\\x1b[31mb"
    assert shorten("x" * 80) == "x" * 71 + "…"
