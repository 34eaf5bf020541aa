"""The results of trained models are ranked, and everything is written to one folder."""

import pyarrow.parquet as pq
import pytest

from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.registry.data_gates import check_gates
from rnnlm.reports.comparison_page import comparison_text
from tasks.compare_models import compare_models
from tests.tasks.model_comparisons import CONFIG, costs_of, trained_models


@pytest.mark.long
def test_models_are_ranked_by_bits_per_byte_and_written_to_a_folder(home: Home, toy_dataset: DatasetRecord) -> None:
    trained = trained_models(toy_dataset)
    found = compare_models.fn(CONFIG, toy_dataset, trained, costs_of(trained))
    assert found.settings["model.hidden_size"] == 8  # what differs from the default is told
    assert "model.layers" not in found.settings
    bits = [result.bits_per_byte for result in found.models]
    assert bits == sorted(bits)
    assert {result.model for result in found.models} == {"elman", "min-gru", "kneser-ney"}
    (elman,) = (result for result in found.models if result.model == "elman")
    assert elman.state_bytes == 4 * 8
    assert elman.runs[0].run_id == trained["elman"].runs[0].run_id
    assert elman.loss_by_position[0] is not None
    assert elman.input_gradients[0] == 1.0
    for pair in found.pairs:
        assert pair.difference <= 0  # the better one is named first
        assert pair.lower <= pair.difference <= pair.upper
    assert {path.name for path in found.folder.iterdir()} == {
        *("comparison.json", "comparison.png", "report.html", "runs.parquet"),
    }
    rows = pq.read_table(found.folder / "runs.parquet").to_pylist()
    assert [row["model"] for row in rows] == [result.model for result in found.models]
    assert rows[0]["test_bits_per_byte"] == pytest.approx(bits[0])
    assert compare_models.fn(CONFIG, toy_dataset, trained, costs_of(trained)).skipped


@pytest.mark.long
def test_a_warning_of_copied_text_stands_beside_the_scores(home: Home, toy_dataset: DatasetRecord) -> None:
    """The toy corpus has few sentences: most of its test lines occur in training."""
    trained = trained_models(toy_dataset)
    warnings = check_gates(home, CONFIG.pipeline, toy_dataset).score_warnings
    found = compare_models.fn(CONFIG, toy_dataset, trained, costs_of(trained), warnings)
    told = "text stands in the training text too"
    assert told in comparison_text(found)
    page = found.page.read_text(encoding="utf-8")
    assert told in page
    assert 'name="viewport" content="width=device-width' in page  # readable on a phone
    without = compare_models.fn(CONFIG, toy_dataset, trained, costs_of(trained))
    assert without.skipped
    assert told not in comparison_text(without)


@pytest.mark.long
def test_the_target_is_the_highest_final_perplexity(home: Home, toy_dataset: DatasetRecord) -> None:
    """So that every model has reached it."""
    trained = trained_models(toy_dataset)
    found = compare_models.fn(CONFIG, toy_dataset, trained, costs_of(trained))
    neural = [result for result in found.models if result.costs]
    assert found.target_perplexity == max(result.final_validation_perplexity for result in neural)
    assert all(result.seconds_to(found.target_perplexity) is not None for result in neural)
