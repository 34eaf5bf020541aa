"""An Elman network of any width and depth learns with the default settings."""

from pathlib import Path

import pytest

from rnnlm.config.presets import build_config
from rnnlm.evaluation.baselines import baselines
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training
from tests.conftest import untracked
from tests.rnnlm.story_corpus import write_stories

WIDE_AND_DEEP = ["tokenizer.kind=char", "model.hidden_size=1024", "model.layers=4", "model.counts=0"]
SHORT = ["training.maximum_tokens=20000", "training.validation.evaluations=1", "training.validation.tokens=3000"]


@pytest.mark.long
def test_four_layers_of_1024_units_learn_more_than_frequencies(tmp_path: Path) -> None:
    """Four layers of 1,024 units reach a lower loss than a unigram model, with the default settings.

    This is the most difficult case of benchmarks/stacks.py. With saturated units or too high a learning rate, the loss
    would be higher.
    """
    home = Home(tmp_path / "home")
    config = build_config("default", [*WIDE_AND_DEEP, *SHORT], str(write_stories(tmp_path / "stories")))
    dataset = prepare_dataset(home, config)
    learnt = run_training(home, config, dataset, untracked).best_validation_perplexity
    assert learnt < 0.8 * baselines(dataset, "valid").unigram_perplexity
