"""Registered models with different tokenizers are compared on one text by bits per byte."""

import numpy as np
import pytest

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.extensions.comparison.comparison_page import registered_text
from rnnlm.extensions.comparison.registered_models import compare_on_text
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked


@pytest.fixture
def char_run(home: Home, toy_config: PipelineConfig) -> RunRecord:
    """Return the run of a model whose tokens are characters, trained on the toy text."""
    config = changed(toy_config, {"tokenizer.kind": "char", "training.epochs": 1})
    return run_training(home, config, prepare_dataset(home, config), untracked)


@pytest.mark.long
def test_models_with_other_tokenizers_are_ranked_by_bits_per_byte(
    home: Home, toy_corpus: CorpusRecord, toy_run: RunRecord, char_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    folders = {"words": toy_run.model_folder, "characters": char_run.model_folder}
    found = compare_on_text(home, folders, CorpusConfig(source=str(toy_corpus.folder)))
    assert found.split == "test"  # The test split is scored, because both models were trained on this text.
    words = found.scores["words"]
    assert words.perplexity == pytest.approx(toy_evaluation.scores["test"].perplexity, rel=1e-5)
    assert words.tokens < found.scores["characters"].tokens
    bits = [score.bits_per_byte for score in found.scores.values()]
    assert bits == sorted(bits)
    (pair,) = found.pairs
    assert (pair.first, pair.second) == tuple(found.scores)
    assert pair.difference == pytest.approx(bits[0] - bits[1], abs=1e-6)
    seen = found.scores["words"].seen_share
    assert seen is not None
    assert f"warning    {seen:.0%} of this text is also in the model's training text" in registered_text(found)


@pytest.mark.long
def test_an_unseen_text_is_scored_whole(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = tmp_path_factory.mktemp("other") / "other.txt"
    lines = np.random.default_rng(0).permutation(["the", "cat", "sees", "the", "dog", "."])
    text.write_text((" ".join(lines) + "\n") * 300)
    found = compare_on_text(
        home, {"one": toy_run.model_folder, "two": toy_run.model_folder}, CorpusConfig(source=str(text))
    )
    assert found.split == "all"
    assert found.pairs[0].difference == 0.0
    text_repeated = registered_text(found)
    assert "100% of the text repeats its own earlier lines" in text_repeated.replace("\n           ", " ")
    assert not found.pairs[0].is_clear
