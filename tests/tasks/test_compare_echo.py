import json

import pytest

from rnnlm.home import Home
from rnnlm.probes.echo import measure_echo
from rnnlm.reports.probe_page import echo_report
from tasks.compare_echo import compare_echo
from tests.tasks.comparisons import ECHO, PNG


@pytest.mark.long
def test_memories_are_compared_once_and_kept_beside_their_picture(home: Home) -> None:
    found = compare_echo.fn(ECHO)
    assert not found.skipped
    assert list(found.scores) == measure_echo(ECHO)
    assert found.picture.parent == found.figures.parent == home.probes
    assert found.picture.read_bytes().startswith(PNG)
    assert json.loads(found.figures.read_text())["value"]["settings"]["training_steps"] == 2
    again = compare_echo.fn(ECHO)
    assert (again.skipped, again.scores) == (True, found.scores)
    assert not compare_echo.fn(ECHO, force=True).skipped


def test_the_report_shows_the_picture_and_a_row_a_network(home: Home) -> None:
    found = compare_echo.fn(ECHO)
    report = echo_report(found)
    assert "data:image/png;base64,iVBOR" in report
    assert "| network | 1 back | 3 back |" in report
    assert f"| tanh, xavier | {found.scores[0].accuracy:.0%} | {found.scores[1].accuracy:.0%} |" in report
    assert "guessing gives 12.5%" in report
