"""The terminal and the Markdown file show the same content of a report page."""

from pathlib import Path

from rnnlm.reports.page import Page
from rnnlm.storage.records import StageRecord


def test_a_page_is_rendered_for_the_terminal_and_in_markdown(tmp_path: Path) -> None:
    (tmp_path / "curve.png").write_bytes(b"abc")
    page = Page(
        title="Training",
        facts={"run": 5, "hint": ""},
        tables={"Scores": [{"split": "a_b", "tokens": "7"}], "Empty": []},
        note="A `note`.",
        pictures={"Curve": tmp_path / "curve.png"},
        stage=StageRecord(seconds=1.25),
    )
    assert page.text().splitlines() == [
        "run        5",
        "",
        "Scores",
        "  split  tokens",
        "  a_b         7",
        "",
        "A `note`.",
        "",
        f"picture    {tmp_path / 'curve.png'}",
    ]
    assert page.markdown().split("\n\n") == [
        "## Training",
        "*done in 1.2 s*",
        "|  |  |\n|---|---|\n| run | 5 |",
        "### Curve",
        "![Curve](data:image/png;base64,YWJj)",
        "A `note`.",
        "### Scores",
        "| split | tokens |\n|---|---|\n| a\\_b | 7 |",
    ]
    assert Page("Corpus", stage=StageRecord(skipped=True)).markdown().endswith("*skipped: its verified output exists*")
