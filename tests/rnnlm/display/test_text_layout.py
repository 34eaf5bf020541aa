"""Tables line up on the terminal, and in Markdown a stranger's text stays text."""

from pathlib import Path

from rnnlm.display.text_layout import Code, columns, fact_lines, labelled, markdown_picture, markdown_table, shorten


def test_words_stand_to_the_left_and_figures_to_the_right() -> None:
    rows = [{"split": "valid", "tokens": "7", "of": "a"}, {"split": "1", "tokens": "47,402", "of": "bb"}]
    assert columns(rows) == [
        "split  tokens  of",
        "valid       7  a",
        "1      47,402  bb",
    ]


def test_values_stand_right_of_their_names_on_every_line() -> None:
    assert labelled("run", "0123") == "run        0123"
    assert labelled("decision", f"{'a' * 40} {'b' * 28} c-d") == f"decision   {'a' * 40} {'b' * 28}\n           c-d"
    assert labelled("files", "f" * 130) == f"files      {'f' * 130}"  # paths stay whole


def test_a_list_of_facts_has_a_line_for_each_item() -> None:
    facts = {"files": 3, "damaged": ["a", "b"], "hint": "", "started": None, "versions": 0}
    assert fact_lines(facts) == ["files      3", "damaged    a", "damaged    b", "versions   0"]


def test_a_cell_of_a_markdown_table_is_shown_as_it_is() -> None:
    assert markdown_table([{"token": "<unk>|", "times": "3"}]) == ("| token | times |\n|---|---|\n| \\<unk\\>\\| | 3 |")
    assert "| `a_b` | `/a_b` |" in markdown_table([{"digest": Code("a_b"), "file": Path("/a_b")}])


def test_a_long_text_is_cut_and_cannot_steer_the_terminal() -> None:
    assert shorten("a\x1b[31mb") == "a\\x1b[31mb"
    assert shorten("x" * 80) == "x" * 71 + "…"


def test_a_picture_travels_inside_the_page(tmp_path: Path) -> None:
    (tmp_path / "curve.png").write_bytes(b"abc")
    assert markdown_picture("Curve", tmp_path / "curve.png") == "![Curve](data:image/png;base64,YWJj)"
