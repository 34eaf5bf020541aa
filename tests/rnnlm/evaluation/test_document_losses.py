"""The losses of whole documents equal those of a slow implementation. Their sum is the score of the split."""

import math
from typing import Literal

import pytest
import torch

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer, load_tokenizer
from tests.reference_log_probabilities import log_probabilities_of

Mode = Literal["sentence", "stream"]
TEXTS = [
    "the cat sees the dog near the river .\nthe bird likes the fox near the tree .\n",
    "the fox",
    "",
    "the zebra sees the cat .\n\nthe dog .\n",
]


@pytest.fixture
def model(toy_run: RunRecord) -> LanguageModel:
    return load_model(toy_run.model_folder)


@pytest.fixture
def tokenizer(toy_run: RunRecord) -> TextTokenizer:
    return load_tokenizer(toy_run.model_folder)


def read_slowly(model: LanguageModel, tokenizer: TextTokenizer, text: str, mode: Mode) -> list[float]:
    """Return the loss of each token of a text, computed row by row from the logits."""
    lines = [tokenizer.encode(line) for line in text.removesuffix("\n").split("\n")]
    if mode == "stream":
        rows = [[token for line in lines for token in [*line, EOS]]]
    else:
        rows = [[*line, EOS] for line in lines if line]
    found = []
    for row in rows:
        log_probabilities = log_probabilities_of(model, [BOS, *row[:-1]])
        found += (-log_probabilities[torch.arange(len(row)), torch.tensor(row)]).tolist()
    return found


@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_each_token_has_the_loss_of_a_slow_reading(model: LanguageModel, tokenizer: TextTokenizer, mode: Mode) -> None:
    found = document_losses(model, tokenizer, TEXTS, SequencesConfig(mode=mode), batch_size=2)
    for loss, text in zip(found, TEXTS, strict=True):
        assert loss.nll_nats.tolist() == pytest.approx(read_slowly(model, tokenizer, text, mode), rel=1e-4)
        assert len(loss.token_ids) == len(loss.nll_nats) == loss.tokens
        assert loss.byte_count == (len(text) + (not text.endswith("\n")) if loss.tokens else len(text))


@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_bits_per_byte_are_the_same_with_and_without_the_last_newline(
    model: LanguageModel, tokenizer: TextTokenizer, mode: Mode
) -> None:
    """Bits per byte do not depend on the line feed at the end of the text.

    `rnnlm score` reads lines with their line feeds, and the endpoint `/score` receives texts without them.
    """
    without, with_newline = document_losses(model, tokenizer, ["the cat", "the cat\n"], SequencesConfig(mode=mode))
    assert without.bits_per_byte == with_newline.bits_per_byte
    assert without.byte_count == with_newline.byte_count == 8


def test_restoring_the_text_from_its_tokens_is_paid_for(model: LanguageModel, tokenizer: TextTokenizer) -> None:
    (loss,) = document_losses(model, tokenizer, TEXTS[3:], SequencesConfig())
    # The bits encode zebra and its end, a blank line as an escape and its end, 5 and 2 gaps between words, and 4 ends
    # of lines.
    bits = 8 * (5 + 1) + 8 * 2 + 7 * math.log2(256 / 255) + 4 * math.log2(256 / 255 * 32 / 31)
    assert (loss.unknown_tokens, loss.restoration_bits) == (1, pytest.approx(bits))
    assert loss.total_nats == pytest.approx(loss.summed_nll_nats + bits * math.log(2))
    assert loss.bits_per_byte == pytest.approx(loss.total_nats / math.log(2) / len(TEXTS[3]))
    assert loss.perplexity == pytest.approx(math.exp(loss.nll_nats.mean()), rel=1e-5)


def test_a_text_without_predictions_has_no_perplexity(model: LanguageModel, tokenizer: TextTokenizer) -> None:
    assert list(document_losses(model, tokenizer, [], SequencesConfig())) == []
    (empty,) = document_losses(model, tokenizer, [""], SequencesConfig())
    assert (empty.tokens, empty.summed_nll_nats) == (0, 0.0)
    assert math.isnan(empty.perplexity)
    assert math.isnan(empty.bits_per_byte)


def test_the_lines_of_a_split_sum_to_its_evaluation(
    model: LanguageModel, tokenizer: TextTokenizer, toy_dataset: DatasetRecord, toy_evaluation: EvaluationRecord
) -> None:
    text = (toy_dataset.folder.parent.parent / "corpora").glob("*/test.txt")
    lines = next(text).read_text(encoding="utf-8").splitlines(keepends=True)
    found = document_losses(model, tokenizer, lines, SequencesConfig())
    score = toy_evaluation.scores["test"]
    assert sum(loss.tokens for loss in found) == score.tokens
    nats = sum(loss.summed_nll_nats for loss in found)
    assert nats == pytest.approx(score.nll_nats_per_token * score.tokens, rel=1e-6)
    bits = sum(loss.total_nats for loss in found) / math.log(2)
    assert bits / sum(loss.byte_count for loss in found) == pytest.approx(score.bits_per_byte, rel=1e-6)
