"""The plots of a comparison can be drawn for every kind of model."""

from pathlib import Path

import pytest

from rnnlm.lab.comparison.comparison_plots import draw_comparison
from rnnlm.lab.comparison.model_comparison import ModelComparison
from tests.rnnlm.lab.comparison.test_model_result import result_of


@pytest.mark.long
def test_a_kind_without_its_own_colour_is_drawn(tmp_path: Path) -> None:
    comparison = ModelComparison(
        key="k",
        folder=tmp_path,
        corpus_name="c",
        dataset_id="d",
        settings={},
        vocabulary_size=10,
        test_tokens=10,
        models=(result_of(7.0), result_of(8.0).model_copy(update={"model": "own"})),
        pairs=(),
        target_perplexity=None,
    )
    draw_comparison(comparison, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
