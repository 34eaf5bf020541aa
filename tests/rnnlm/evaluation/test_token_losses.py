"""Losses of single tokens: what they sum to, what they do not depend on."""

from typing import Literal

import numpy as np
import pytest
import torch

import rnnlm.evaluation.shared_prefix_scoring
import rnnlm.evaluation.token_losses
from rnnlm.evaluation.token_losses import (
    TokenLosses,
    evaluation_device,
    joined_losses,
    nll_of_batches,
    nll_of_split,
    token_losses,
)
from rnnlm.home import read_json, write_json
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import StreamCutter, TokenRows, join_rows, rows_from_lists
from rnnlm.storage.records import DatasetRecord, EvaluationRecord, RunRecord
from tests.configs import new_model

LINES = [[4, 5, 6], [7], [5, 5, 4, 6, 7, 4], [6, 4]]


@pytest.fixture
def model() -> LanguageModel:
    network = new_model(8, 6, layers=2).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return network


def source_of(mode: Literal["sentence", "stream"]) -> TokenRows:
    if mode == "sentence":
        return rows_from_lists([[2, *line, 3] for line in LINES])
    cutter = StreamCutter(block_length=4)
    return join_rows([cutter.add(np.array([*line, 3], np.int32)) for line in LINES] + [cutter.finish()])


def everything(model: LanguageModel, source: RowSource, mode: Literal["sentence", "stream"]) -> TokenLosses:
    nll_nats = np.concatenate(list(nll_of_split(model, source, mode, batch_size=2)))
    return joined_losses(list(token_losses(source, nll_nats)))


@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_tokens_come_in_the_order_of_the_text(model: LanguageModel, mode: Literal["sentence", "stream"]) -> None:
    losses = everything(model, source_of(mode), mode)
    text = [token for line in LINES for token in [*line, 3]]
    assert losses.token_ids.tolist() == text
    if mode == "stream":
        assert losses.previous_ids.tolist() == [2, *text[:-1]]
        assert losses.sequence_ids.tolist() == [place // 4 for place in range(len(text))]
    else:
        assert losses.previous_ids.tolist() == [token for line in LINES for token in [2, *line]]
        assert losses.sequence_ids.tolist() == [row for row, line in enumerate(LINES) for _ in [*line, 3]]


def test_a_loss_is_that_of_its_own_token(model: LanguageModel) -> None:
    """Against the slowest way: a sentence at a time, each logit looked up."""
    losses = everything(model, source_of("sentence"), "sentence")
    expected = []
    for line in LINES:
        logits, _ = model(torch.tensor([[2, *line]]))
        chosen = logits[0].log_softmax(-1)[torch.arange(len(line) + 1), torch.tensor([*line, 3])]
        expected += (-chosen).tolist()
    assert losses.nll_nats.tolist() == pytest.approx(expected, rel=1e-5)


def test_long_rows_go_through_in_windows_and_cost_the_same(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of("sentence")
    whole = everything(model, source, "sentence")
    total, _ = nll_of_batches(model, evaluation_batches(source, "sentence", 2))
    for module in (rnnlm.evaluation.token_losses, rnnlm.evaluation.shared_prefix_scoring):
        monkeypatch.setattr(module, "EVALUATION_WINDOW", 2)
    windows = everything(model, source, "sentence")
    assert windows.nll_nats == pytest.approx(whole.nll_nats, rel=1e-5)
    assert nll_of_batches(model, evaluation_batches(source, "sentence", 2))[0] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_the_sum_is_the_evaluations_sum(model: LanguageModel, mode: Literal["sentence", "stream"]) -> None:
    source = source_of(mode)
    total, count = nll_of_batches(model, evaluation_batches(source, mode, 2))
    losses = everything(model, source, mode)
    assert len(losses) == count
    assert losses.nll_nats.sum(dtype=np.float64) == pytest.approx(total, rel=1e-9)


def test_batch_size_and_padding_change_nothing(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    model, source = load_model(toy_run.model_folder), StoredSplit(toy_dataset, "test")
    one, many = (np.concatenate(list(nll_of_split(model, source, "sentence", size))) for size in (1, 64))
    assert one == pytest.approx(many, rel=1e-4, abs=1e-6)


def test_the_toy_losses_sum_to_its_score(
    toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    model = load_model(toy_run.model_folder)
    losses = everything(model, StoredSplit(toy_dataset, "test"), "sentence")
    score = toy_evaluation.scores["test"]
    assert losses.nll_nats.sum(dtype=np.float64) == pytest.approx(score.nll_nats_per_token * score.tokens, rel=1e-6)


def test_the_device_of_training_evaluates_unless_another_machine_lacks_it(
    toy_run: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_json(toy_run.folder / "config.json")

    def device(configured: str, present: bool) -> str:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
        config["training"]["device"] = configured
        write_json(toy_run.folder / "config.json", config)
        return evaluation_device(toy_run).type

    assert [device("auto", True), device("cuda", True), device("cpu", True)] == ["cuda", "cuda", "cpu"]
    assert [device("auto", False), device("cuda", False)] == ["cpu", "cpu"]
