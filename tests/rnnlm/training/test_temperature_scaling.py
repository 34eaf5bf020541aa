"""Temperature scaling finds the temperature with the lowest loss. It changes nothing but the scale of the logits."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.config import ModelKind, PipelineConfig
from rnnlm.evaluation.batch_losses import nll_of_batches
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model, load_model
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.tuning_sample import TuningSample
from rnnlm.storage.home import Home, read_json
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.temperature_scaling import divide_logits, fit_temperature
from rnnlm.training.training_run import run_training
from tests.configs import changed, plain_model
from tests.conftest import untracked

MODELS: dict[str, dict[str, object]] = {
    "own head": {},
    "tied": {"tie_embeddings": True},
    "tied, with a readout": {"tie_embeddings": True, "embedding_size": 10},
    "one-hot": {"input": "one-hot"},
    "two layers": {"tie_embeddings": True, "layers": 2},
    "three layers that add up": {"tie_embeddings": True, "layers": 3, "residual": True},
    **{kind: {"kind": kind, "tie_embeddings": True, "layers": 2} for kind in get_args(ModelKind)},
    "diagonal": {"tie_embeddings": True, "recurrence": "diagonal", "recurrent_initialization": "spread"},
}


def network(**settings: object) -> LanguageModel:
    config = plain_model({"hidden_size": 16, "head_bias": "zero"} | settings)
    model = build_model(config, 12, seed=0)
    with torch.no_grad():
        model.head.bias.copy_(torch.linspace(-1, 1, 12))
    return model


def overconfident() -> LanguageModel:
    """Return a model that has memorized two of the three batches."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        optimizer.zero_grad()
        summed_loss(model, torch.tensor(1.0), batches()[:2]).backward()
        optimizer.step()
    return model


def batches() -> list[Batch]:
    """Return two rows and two windows of a stream. The second row is padded. Some targets continue a pattern."""
    ids = torch.tensor([[2, 4, 5, 6, 7, 8, 9, 3], [2, 5, 4, 11, 3, 0, 0, 0]])
    stream = torch.tensor([[4, 5, 6, 7, 8, 9, 10, 11, 4]])
    return [
        Batch(ids[:, :-1], ids[:, 1:], False, 11),
        Batch(stream[:, :4], stream[:, 1:5], False, 4),
        Batch(stream[:, 4:-1], stream[:, 5:], True, 4),
    ]


def summed_loss(model: LanguageModel, sharpness: Tensor, of: list[Batch]) -> Tensor:
    """Return the loss of the batches `of`, computed by definition.

    Infinite logits are left out, because their gradient would be NaN.
    """
    total, state = torch.zeros(()), None
    for batch in of:
        logits, state = model(batch.input_ids, state if batch.carries_state else None)
        logits = (logits.nan_to_num(neginf=-1e9) * sharpness).flatten(0, 1)
        total = total + functional.cross_entropy(logits, batch.target_ids.flatten(), ignore_index=0, reduction="sum")
    return total


@pytest.mark.parametrize(("times", "expected_passes"), [(2.5, 1), (1.0, 2), (0.5, 3)])
def test_the_temperature_is_found_wherever_it_lies(times: float, expected_passes: int) -> None:
    """The best temperature is found in the expected number of passes, whether it is near 1 or not.

    The logits are first divided by `times`. The best temperature is 2.59 for times = 1, 1.04 for 2.5 and 5.18 for 1/2.
    Near 1, a single pass over the batches is enough.
    """
    model = overconfident()
    alone = fit_temperature(model, batches).temperature
    divide_logits(model, times)
    passes: list[int] = []

    def counted() -> list[Batch]:
        passes.append(1)
        return batches()

    assert fit_temperature(model, counted).temperature == pytest.approx(alone / times, rel=0.005)
    assert len(passes) == expected_passes


@pytest.mark.parametrize("kind", MODELS)
def test_dividing_the_logits_leaves_the_states(kind: str) -> None:
    model, (batch, *_) = network(**MODELS[kind]), batches()
    logits, state = model(batch.input_ids)
    divide_logits(model, 1.7)
    divided, state_after = model(batch.input_ids)
    assert torch.allclose(divided, logits / 1.7, atol=1e-6)  # The comparison includes -inf, which remains -inf.
    assert torch.allclose(state_after, state, atol=1e-6)
    assert not model.embedding.weight[model.pad_id].any()


@pytest.mark.slow
def test_a_run_is_scaled_at_its_end(home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord) -> None:
    """After its last step, a run's logits are divided by the best temperature.

    The model is overfitted in a short training run. Its steps are the same as without temperature scaling.
    """
    settings = {
        "training.epochs": 30,
        "training.optimizer.learning_rate": 0.03,
        "training.validation.evaluations": 1,
    }
    plain_config = changed(toy_config, settings)
    scaling = changed(plain_config, {"training.temperature_scaling": True})
    plain = run_training(home, plain_config, toy_dataset, untracked)
    scaled = run_training(home, scaling, toy_dataset, untracked)
    assert (plain.temperature, scaled.temperature) == (1.0, read_json(scaled.folder / "run.json")["temperature"])
    assert scaled.temperature != pytest.approx(1.0, abs=1e-3)
    assert scaled.best_validation_perplexity < plain.best_validation_perplexity
    sample = TuningSample(toy_dataset, scaling.training.validation.tokens)
    model = load_model(scaled.model_folder)
    nats, tokens = nll_of_batches(model, sample.batches(64))
    assert math.exp(nats / tokens) == pytest.approx(scaled.best_validation_perplexity, rel=1e-6)
    weights = load_model(plain.model_folder).stack.cells[0].U
    assert torch.equal(model.stack.cells[0].U, weights)


def test_a_model_that_is_always_right_gets_the_lowest_temperature() -> None:
    model = network()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(functional.one_hot(torch.tensor(5), 12).float())
    ids = torch.full((1, 4), 5)
    assert fit_temperature(model, lambda: [Batch(ids, ids, False, 4)]).temperature == pytest.approx(0.1)


def test_equal_logits_are_not_scaled() -> None:
    model = network()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
    assert fit_temperature(model, batches).temperature == 1.0
