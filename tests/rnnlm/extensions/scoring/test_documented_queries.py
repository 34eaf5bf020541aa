"""The queries in docs/how-to/scoring.md return the described rows, from Parquet files and from databases."""

import re
from pathlib import Path
from typing import Any

import pytest

from rnnlm.extensions.scoring.score_output import reading_scores
from rnnlm.models.count_model import FILE
from rnnlm.storage.records import RunRecord
from rnnlm.storage.stages import mark_complete
from rnnlm.training.training_run import UNMARKED
from tests.rnnlm.extensions.scoring.conftest import LINES, Score

DOCS = Path(__file__).parents[4] / "docs" / "how-to" / "scoring.md"


def documented(name: str) -> str:
    """Return the SQL below the comment `name` on the page, unchanged."""
    found = re.search(rf"<!-- {name} -->\n```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(autouse=True)
def network_alone(toy_run: RunRecord) -> None:
    """Remove the n-gram model, because with it the toy grammar's sentences have a far lower loss than real text."""
    (toy_run.model_folder / FILE).unlink()
    mark_complete(toy_run.folder, apart_from=UNMARKED)


def asked(score: Score, tmp_path: Path, ending: str, name: str) -> list[tuple[Any, ...]]:
    output = score(output=str(tmp_path / f"scores.{ending}")).output
    assert output is not None
    with reading_scores(output) as connection:
        return connection.execute(documented(name)).fetchall()


@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
def test_the_filter_keeps_sentences_of_the_grammar(score: Score, tmp_path: Path, ending: str) -> None:
    kept = asked(score, tmp_path, ending, "filter")
    places = [document for document, _ in kept]
    assert [text for _, text in kept] == [LINES[place] for place in places]
    assert set(range(6)) <= set(places)  # The first six lines are sentences of the grammar.
    assert LINES.index("") not in places
    assert LINES.index("the dog .") not in places  # The query leaves out short texts such as "the dog .".


@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
def test_the_ranking_begins_with_the_strangest_and_says_why(score: Score, tmp_path: Path, ending: str) -> None:
    ranked = asked(score, tmp_path, ending, "rank")
    costs = [bits for _, bits, _, _ in ranked]
    assert costs == sorted(costs, reverse=True)
    assert len(ranked) == len(LINES) - 1  # All lines except the blank one are ranked.
    assert {document for document, _, _, _ in ranked[:3]} == {
        LINES.index("the zebra likes the cat near the house ."),  # "zebra" is not in the vocabulary.
        LINES.index("river the the near . fox dog"),
        LINES.index("the dog ."),  # No sentence of the training text ends with "dog .".
    }
    assert all(len(tokens) == min(5, len(text.split()) + 1) for _, _, tokens, text in ranked)
