"""The losses of tokens have the correct sums and order. They do not depend on the sizes of chunks and windows."""

from typing import Literal

import numpy as np
import pytest
import torch

import rnnlm.evaluation.batch_losses
import rnnlm.evaluation.token_losses
from rnnlm.evaluation.batch_losses import nll_of_batches
from rnnlm.evaluation.token_losses import (
    joined_nll,
    nll_of_split,
    token_losses,
)
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.records import DatasetRecord, RunRecord
from tests.configs import random_model
from tests.rnnlm.extensions.adaptation.conftest import text_of

LINES = [[4, 5, 6], [7], [5, 5, 4, 6, 7, 4], [6, 4]]


@pytest.fixture
def model() -> LanguageModel:
    return random_model("elman", 8)


@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_each_token_has_its_own_loss_in_the_order_of_the_text(
    model: LanguageModel, mode: Literal["sentence", "stream"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses equal those of a forward pass over each sentence or the stream, even if windows are short."""
    source, text = text_of(LINES, mode, block_length=4), [token for line in LINES for token in [*line, 3]]
    rows = [[2, *line, 3] for line in LINES] if mode == "sentence" else [[2, *text]]
    expected: list[float] = []
    for row in rows:
        logits, _ = model(torch.tensor([row[:-1]]))
        expected += (-logits[0].log_softmax(-1)[torch.arange(len(row) - 1), torch.tensor(row[1:])]).tolist()
    for window in (4_096, 2):
        for module in (rnnlm.evaluation.token_losses, rnnlm.evaluation.batch_losses):
            monkeypatch.setattr(module, "EVALUATION_WINDOW", window)
        total, count = nll_of_batches(model, evaluation_batches(source, mode, 2))
        assert (count, total) == (len(text), pytest.approx(sum(expected), rel=1e-5))
        losses = np.concatenate(list(token_losses(source, joined_nll(nll_of_split(model, source, mode, 2)))))
        assert losses["nll_nats"].tolist() == pytest.approx(expected, rel=1e-5, abs=3e-6)
    assert losses["token_id"].tolist() == text
    assert losses["previous_token_id"].tolist() == [token for row in rows for token in row[:-1]]
    sentences = [row for row, line in enumerate(LINES) for _ in [*line, 3]]
    blocks = [place // 4 for place in range(len(text))]
    assert losses["sequence_id"].tolist() == (sentences if mode == "sentence" else blocks)


def test_batch_size_and_padding_change_nothing(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    model, source = load_model(toy_run.model_folder), StoredSplit(toy_dataset, "test")
    one, many = (np.concatenate(list(nll_of_split(model, source, "sentence", size))) for size in (1, 64))
    assert one == pytest.approx(many, rel=1e-4, abs=1e-6)
