"""The most unusual documents differ in wording or in the size of a number. Each kind is listed only once."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rnnlm.display.text_layout import LINE_WIDTH
from rnnlm.extensions.scoring.bulk_scoring import score_texts
from rnnlm.extensions.scoring.drift import Drift, ScoredRecord
from rnnlm.extensions.scoring.scoring_page import excerpt, scoring_page
from rnnlm.extensions.scoring.strange_documents import StrangeDocument, find_strange_documents
from rnnlm.storage.home import Home
from tests.rnnlm.extensions.scoring.conftest import Configure

Find = Callable[[list[str]], tuple[StrangeDocument, ...]]


def usual_lines(count: int = 400) -> list[str]:
    """Return `count` lines that differ in a subject, an identifier, a duration and a size. The size may be 0."""
    draw = random.Random(1)
    lines = []
    for _ in range(count):
        identifier = "".join(draw.choices("0123456789abcdef", k=8))
        subject = draw.choice(("cat", "bird", "fox"))
        sizes = f"{draw.randint(20, 60)}ms and {draw.randint(0, 90)} bytes"
        lines.append(f"the {subject} sees the dog near the river . {identifier} took {sizes}")
    return lines


@pytest.fixture
def strangest(home: Home, configure: Configure, tmp_path: Path) -> Find:
    """Return a function that finds the ten strangest of the given lines."""

    def find(lines: list[str]) -> tuple[StrangeDocument, ...]:
        path = tmp_path / "app.log"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        scoring = score_texts(home, configure(input=str(path), output=None, shard_documents=4_096))
        assert scoring.output is not None
        assert scoring.output.is_relative_to(home.scores)
        return find_strange_documents(scoring, 10)

    return find


def test_a_strange_word_and_a_huge_number_are_found_and_marked(strangest: Find) -> None:
    lines = usual_lines()
    lines[100] = lines[100].replace("sees the dog", "river near near")
    lines[200] = lines[200].replace("took ", "took 98")
    found = {document.place: document for document in strangest(lines)}
    assert {100, 200} <= set(found)
    assert found[100].number is None
    marked = " ".join(found[100].text[start:end] for start, end in found[100].marks)
    assert "river" in marked or "near" in marked
    number = found[200].number
    assert number is not None
    ((start, end),) = found[200].marks
    assert found[200].text[start:end] == number.number == lines[200].split()[-4].removesuffix("ms")
    assert 20 <= number.usual <= 60


def test_usual_lines_and_identifiers_of_digits_are_not_strange(strangest: Find) -> None:
    lines = usual_lines()
    lines[7] = lines[7].replace(lines[7].split()[9], "00000001")
    lines[8] = lines[8].replace(lines[8].split()[9], "99999999")
    assert [document for document in strangest(lines) if document.number is not None] == []


def test_lines_that_are_strange_in_the_same_way_share_a_place(strangest: Find) -> None:
    lines = usual_lines()
    for place in range(0, 40, 2):
        lines[place] = lines[place].replace("took ", "took 98")
        lines[place + 1] = f"unheard quartz xylophones {place} jumped"
    shares = {document.number is not None: document.documents for document in strangest(lines)}
    assert shares == {True: 20, False: 20}


def test_a_field_with_few_numbers_has_no_usual_size(strangest: Find) -> None:
    lines = [line.rsplit(" took", 1)[0] for line in usual_lines()]
    lines[3] += " took 1 ms"
    lines[5] += " took 99999999 ms"
    assert all(document.number is None for document in strangest(lines))


def test_an_excerpt_shows_the_first_mark_and_fits() -> None:
    text = "a" * 100 + " strange\x1b " + "b" * 100
    shown = excerpt(text, ((101, 109),), 48)
    assert "»strange\\x1b«" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 48
    assert excerpt("short", (), 48) == "short"
    assert excerpt("", (), 48) == ""


@pytest.mark.long
def test_the_list_fits_a_terminal(home: Home, configure: Configure, tmp_path: Path) -> None:
    lines = usual_lines()
    lines[390] = lines[390].replace("took ", "took 9823100")
    (tmp_path / "app.log").write_text("\n".join(lines) + "\n")
    config = configure(input=str(tmp_path / "app.log"), top=5, output=None)
    scoring = score_texts(home, config)
    strange = find_strange_documents(scoring, config.top)
    page = scoring_page(config, ScoredRecord(scoring=scoring, drift=Drift(threshold=0.2), strange=strange))
    (line,) = [line for line in page.text().splitlines() if "9823100" in line]
    assert "391" in line.split()  # Lines are numbered from 1.
    assert len(line) <= LINE_WIDTH


def test_numbers_beyond_a_double_are_ranked_by_their_digits(strangest: Find) -> None:
    """Numbers too large for a float are ranked by their digits, and all values can be written as JSON."""
    lines = usual_lines()
    lines[100] = lines[100].replace("took ", f"took {'9' * 320}")
    lines[200] = lines[200].replace("took ", f"took {'9' * 900}")
    (first, *_) = found = strangest(lines)
    assert first.place == 200
    assert first.number is not None
    assert first.number.number.startswith("9" * 900)
    assert first.documents == 2  # Both numbers are in the same field, so they are listed as one kind.
    json.loads(json.dumps([one.model_dump(mode="json") for one in found], allow_nan=False))
