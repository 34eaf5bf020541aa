"""Reported perplexities equal perplexities that are computed independently."""

import math
from pathlib import Path

import pytest
import torch

from rnnlm.config import CorpusConfig, EvaluationConfig, PipelineConfig
from rnnlm.evaluation.external_corpus import score_corpus
from rnnlm.evaluation.perplexity import evaluate_run, score_split
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.unigram import unigram_log_probabilities
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.tokenizers.text_tokenizer import PLAIN_END_BITS, PLAIN_GAP_BITS, load_tokenizer
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked
from tests.reference_log_probabilities import log_probabilities_of


def test_the_score_is_the_sum_over_sentences_one_by_one(
    toy_dataset: DatasetRecord, toy_run: RunRecord, toy_corpus: CorpusRecord
) -> None:
    """The score of a split equals the sum over its sentences, each of which is read alone and token by token."""
    model, tokenizer = load_model(toy_run.model_folder), load_tokenizer(toy_run.model_folder)
    nats, count = 0.0, 0
    for line in (toy_corpus.folder / "test.txt").read_text().splitlines():
        ids = [2, *tokenizer.encode(line), 3]
        log_probabilities = log_probabilities_of(model, ids[:-1])
        for position, target in enumerate(ids[1:]):
            nats -= float(log_probabilities[position, target])
            count += 1
    score = score_split(model, toy_dataset, "test", batch_size=7)
    assert score.tokens == count == 400
    assert score.nll_nats_per_token == pytest.approx(nats / count, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(nats / count), rel=1e-5)
    size = (toy_corpus.folder / "test.txt").stat().st_size
    # Each of the 40 lines has nine words, with 8 gaps between words and 2 ends.
    bits = nats / math.log(2) + 40 * (8 * PLAIN_GAP_BITS + 2 * PLAIN_END_BITS)
    assert score.bits_per_byte == pytest.approx(bits / size, rel=1e-5)


def test_the_first_rows_are_scored_beside_the_whole_split(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    """The first rows of a split have a separate score, in addition to the score of the whole split.

    A row of the toy text has 10 predicted tokens, and the split has 40 rows.
    """
    nll = stored_nll(home, toy_dataset, toy_run, "test", 64)
    assert len(nll) == 400
    config = EvaluationConfig(first_rows=7)
    found = evaluate_run(home, toy_dataset, toy_run, config)
    assert found.scores["test"].first_rows_perplexity == pytest.approx(math.exp(nll[:70].mean(dtype=float)))
    assert found.scores["test"].perplexity == toy_evaluation.scores["test"].perplexity
    assert "perplexity of the first 7 rows" in score_rows(found)[0]
    assert "perplexity of the first 7 rows" not in score_rows(toy_evaluation)[0]
    whole = evaluate_run(home, toy_dataset, toy_run, EvaluationConfig(first_rows=1_000)).scores["test"]
    assert whole.first_rows_perplexity == pytest.approx(whole.perplexity)
    assert evaluate_run(home, toy_dataset, toy_run, EvaluationConfig()).scores == toy_evaluation.scores


def test_a_head_without_weights_has_the_perplexity_of_a_baseline(
    toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    model = load_model(toy_run.model_folder)
    model.mixture = None
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)
    score = score_split(model, toy_dataset, "test", 8)
    assert score.perplexity == pytest.approx(score.uniform_perplexity, rel=1e-6)
    assert score.uniform_perplexity == toy_dataset.vocabulary_size - 2
    model.head.bias.data = torch.from_numpy(unigram_log_probabilities(toy_dataset))
    assert score_split(model, toy_dataset, "test", 8).perplexity == pytest.approx(score.unigram_perplexity, rel=1e-5)


@pytest.mark.long
def test_counts_are_not_mixed_in_on_the_text_that_they_are_of(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_corpus: CorpusRecord
) -> None:
    config = changed(toy_config, {"model.counts": 3, "evaluation.splits": ("train", "valid", "test")})
    run = run_training(home, config, toy_dataset, untracked)
    at_training = evaluate_run(home, toy_dataset, run, config.evaluation).scores
    for split in ("train", "test"):
        again = score_corpus(home, run.model_folder, CorpusConfig(source=str(toy_corpus.folder)), split)
        assert again.model == at_training[split].model
        assert again.perplexity == pytest.approx(at_training[split].perplexity, rel=1e-4)


@pytest.mark.parametrize("place", ["at the end", "at the beginning"])
def test_training_text_with_one_more_line_is_reported_as_seen(
    home: Home,
    toy_run: RunRecord,
    toy_corpus: CorpusRecord,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    text = (toy_corpus.folder / "train.txt").read_text()
    line = "the zebra sees the unicorn near the waterfall .\n"
    (tmp_path / "grown.txt").write_text(text + line if place == "at the end" else line + text)
    score = score_corpus(home, toy_run.model_folder, CorpusConfig(source=str(tmp_path / "grown.txt")))
    assert score.split == "all"
    assert score.seen_share == pytest.approx(1 - len(line) / (len(text) + len(line)), abs=1e-3)
    assert "is also in the model's training text" in caplog.text
