"""Every table of scores shows which split was scored, and whether only a sample of it was scored."""

import re
from pathlib import Path

import pytest

from flows.commands.runs import run_row
from rnnlm.display.text_layout import TableRows
from rnnlm.evaluation.score_tables import score_rows, score_table
from rnnlm.extensions.adaptation.adaptation_table import AdaptationTable, Variant
from rnnlm.extensions.comparison import comparison_page
from rnnlm.extensions.comparison.document_bootstrap import PairDifference
from rnnlm.extensions.comparison.model_comparison import ModelComparison
from rnnlm.extensions.comparison.model_result import Trial
from rnnlm.extensions.comparison.run_plan import TunedSettings
from rnnlm.reports.registry_page import model_row
from rnnlm.storage.result_records import EvaluationRecord, ListedVersion
from rnnlm.tracking.run_comparison import RunOverview
from tests.rnnlm.extensions.comparison.test_comparison_page import comparison
from tests.rnnlm.extensions.comparison.test_model_result import result_of
from tests.split_scores import split_score_of

MEASURE = re.compile("perplexity|bits|ppl")
SPLIT = re.compile("^(sampled validation|validation|test|training|whole-text) (perplexity|bits/byte)")
PAIR = PairDifference(first="elman", second="kneser-ney", difference=0.1, lower=-0.1, upper=0.3, documents=9)
TUNED = TunedSettings(learning_rate=0.1, dropout_inputs=0.0, dropout_outputs=0.0)


@pytest.fixture
def found(tmp_path: Path) -> ModelComparison:
    trial = Trial(settings=TUNED, validation_perplexity=9.0)
    result = result_of(7.0, 8.0).model_copy(update={"trials": (trial,)})
    counts = result.model_copy(update={"model": "kneser-ney", "parameters": 12_345_678})
    return comparison(tmp_path, models=(result, counts), pairs=(PAIR,))


def tables(found: ModelComparison) -> dict[str, TableRows]:
    evaluation = EvaluationRecord(scores={name: split_score_of(9.0, name) for name in ("valid", "test")}, seconds=1.0)
    first_rows = split_score_of(9.0, "test").model_copy(update={"first_rows": 7, "first_rows_perplexity": 8.0})
    static = Variant(name="static", nll_nats_per_token=1.0, perplexity=3.0, settings={})
    version = ListedVersion(
        name="m", version=1, aliases=(), validation_perplexity=9.0, bits_per_byte=2.0, dataset_id="d", created="2026"
    )
    run = RunOverview(
        run_id="0123",
        started="2026-11-21T02:04:05",
        corpus="c",
        settings={},
        finished=True,
        steps=1,
        trained_tokens=1,
        validation_perplexity=9.0,
        test_perplexity=9.0,
        bits_per_byte=2.0,
    )
    return {
        "rnnlm run": score_rows(evaluation),
        "rnnlm evaluate": score_table(split_score_of(9.0, "test")),
        "rnnlm evaluate --split valid": score_table(split_score_of(9.0, "valid")),
        "rnnlm evaluate, another text": score_table(split_score_of(9.0, "all")),
        "rnnlm evaluate, evaluation.first_rows": score_table(first_rows),
        "rnnlm evaluate --cache": AdaptationTable(split="test", tokens=9, variants=(static,)).rows,
        "rnnlm compare": comparison_page.score_rows(found),
        "rnnlm compare, pairs": [comparison_page.pair_row(PAIR)],
        "rnnlm compare, trials": comparison_page.trial_rows(found),
        "rnnlm models": [model_row(version)],
        "rnnlm runs": [run_row(run)],
    }


def test_every_heading_of_a_score_names_split_and_measure(found: ModelComparison) -> None:
    shown = tables(found)
    for name, rows in shown.items():
        scores = [heading for heading in rows[0] if MEASURE.search(heading)]
        assert scores, name
        if "split" not in rows[0]:
            assert all(map(SPLIT.match, scores)), (name, scores)
    # The trials of a comparison are scored on a sample of the split.
    assert "sampled validation perplexity" in shown["rnnlm compare, trials"][0]
    assert "test perplexity of the first 7 rows" in shown["rnnlm evaluate, evaluation.first_rows"][0]
