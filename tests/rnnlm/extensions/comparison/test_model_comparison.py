"""The results of a comparison agree with those of ordinary runs."""

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.extensions.comparison.comparison_plots import KIND_COLOURS, OWN_KIND_COLOUR, colour_of
from rnnlm.extensions.comparison.model_comparison import kneser_ney_result
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training
from tests.configs import KINDS, changed
from tests.conftest import untracked


@pytest.mark.parametrize("mode", [pytest.param("sentence", marks=pytest.mark.long), "stream"])
def test_a_comparison_counts_like_a_run(home: Home, toy_config: PipelineConfig, mode: str) -> None:
    """A comparison gives an n-gram model the same scores as a run, with contexts that continue over rows."""
    config = changed(toy_config, {"model.kind": "kneser-ney", "sequences.mode": mode, "sequences.context_length": 8})
    dataset = prepare_dataset(home, config)
    run = run_training(home, config, dataset, untracked)
    expected = evaluate_run(home, dataset, run, config.evaluation).scores["test"]
    result, (nll,) = kneser_ney_result(dataset)
    assert result.runs[0].test.perplexity == pytest.approx(expected.perplexity)
    assert len(nll) == expected.tokens
    assert result.parameters > 100


def test_every_kind_has_a_colour_also_one_that_is_not_listed() -> None:
    assert {*KINDS, "kneser-ney"} == KIND_COLOURS.keys()
    assert colour_of("own") == OWN_KIND_COLOUR
