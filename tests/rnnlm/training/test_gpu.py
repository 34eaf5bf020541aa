"""Training on a GPU, compared with the CPU. Skipped where there is no GPU."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import torch

from rnnlm.config import ModelKind, OptimizerConfig, PipelineConfig
from rnnlm.config.model_config import Nonlinearity
from rnnlm.home import Home
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.devices import float32_products
from rnnlm.models.dropout import Dropout
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.optimizer_step import NO_DROPOUT, BatchLoss, Step, Updater, take_step
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.seeding import step_generator
from tests.configs import KINDS, plain_model, random_model
from tests.rnnlm.losses.precisions import TEXT_SHARE, with_one_target_and_several, with_targets
from tests.rnnlm.training.checkpointing.test_resuming import check_bit_identity, configured
from tests.rnnlm.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
VOCABULARY, STEPS = 300, 12
NONLINEARITIES = get_args(Nonlinearity)
LOSSES: dict[str, Loss] = {
    "exact": ChunkedCrossEntropy(text_share=TEXT_SHARE),
    "sampled": SampledCrossEntropy(np.r_[[0, 0, 0], np.ones(VOCABULARY - 3)], 64, text_share=TEXT_SHARE),
}
ALL_KINDS = Dropout(words=0.1, inputs=0.2, layers=0.2, outputs=0.2, recurrent=0.3)


def batches(device: torch.device | None, target_count: int = 1) -> list[Batch]:
    generator = np.random.default_rng(0)
    rows = rows_from_lists([generator.integers(3, VOCABULARY, 3 + index % 5).tolist() for index in range(16 * STEPS)])
    plain = TrainingBatches(rows, "sentence", 16, 35, seed=0, device=device)
    return [dataclasses.replace(batch, target_ids=with_targets(batch.target_ids, target_count)) for batch in plain]


def train(
    device: str,
    loss: Loss,
    dropout: Dropout = NO_DROPOUT,
    compiled: bool = False,
    forbid_waiting: bool = False,
    target_count: int = 1,
) -> tuple[list[Step], list[torch.Tensor]]:
    resident = torch.device(device) if device == "cuda" else None
    config = plain_model({"hidden_size": 32, "layers": 2, "residual": True, "head_bias": "zero"})
    model = build_model(config, VOCABULARY, 0)
    model.to(device)
    optimizer = make_optimizer(model, OptimizerConfig())
    batch_loss = BatchLoss(model, loss, dropout)
    if compiled:
        batch_loss.compile(mode="reduce-overhead")
    updater = Updater(batch_loss, optimizer, 1.0)
    taken = []
    with float32_products("float32"):
        for number, batch in enumerate(batches(resident, target_count)):
            optimizer.param_groups[0]["lr"] = 0.001 * (1 + number)
            torch.cuda.set_sync_debug_mode("error" if forbid_waiting and number > 2 else "default")
            try:
                generator = step_generator(0, number)
                step = take_step(updater, batch, None, generator)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            taken.append(step)
    return taken, [parameter.detach().cpu() for parameter in model.parameters()]


@with_one_target_and_several
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("dropout", [NO_DROPOUT, ALL_KINDS], ids=["plain", "dropout"])
def test_a_gpu_trains_as_the_cpu_does(name: str, dropout: Dropout, target_count: int) -> None:
    expected, weights = train("cpu", LOSSES[name], dropout, target_count=target_count)
    got, gpu_weights = train("cuda", LOSSES[name], dropout, target_count=target_count)
    for one, other in zip(expected, got, strict=True):
        torch.testing.assert_close(other.loss.cpu(), one.loss, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(other.norm.cpu(), one.norm, rtol=1e-2, atol=1e-4)
    # AdamW moves a weight by about the learning rate even where its gradient is rounding alone, of either sign.
    differences = torch.cat([(one - other).abs().flatten() for one, other in zip(gpu_weights, weights, strict=True)])
    assert differences.quantile(0.999) < 1e-2
    assert differences.max() < 2 * sum(0.001 * (1 + number) for number in range(STEPS))


DIAGONAL = {"recurrence": "diagonal", "recurrent_initialization": "spread"}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, {}) for kind in KINDS), *(("elman", {**DIAGONAL, "nonlinearity": name}) for name in NONLINEARITIES)],
)
def test_every_kind_computes_as_on_the_cpu(kind: ModelKind, settings: dict[str, str]) -> None:
    """Logits, state and gradients, from a state that has been carried in."""
    results = []
    for device in ("cpu", "cuda"):
        model = random_model(kind, VOCABULARY, **settings).to(device)
        ids = torch.from_numpy(np.random.default_rng(0).integers(3, VOCABULARY, (4, 24))).to(device)
        with float32_products("float32"):
            _, state = model(ids[:, :12])
            logits, state = model(ids[:, 12:], state)
            logits[..., 3:].square().mean().backward()
            with torch.no_grad():
                scored, _ = model(ids)
        gradients = [parameter.grad.cpu() for parameter in model.parameters() if parameter.grad is not None]
        results.append((logits.detach().cpu(), state.detach().cpu(), scored.cpu(), gradients))
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("loss", ["exact", "sampled"])
def test_kills_change_no_bit(
    home: Home, trainer: Trainer, toy_config: PipelineConfig, toy_dataset: DatasetRecord, loss: str
) -> None:
    settings = {
        "training.device": "cuda",
        "training.deterministic": True,
        "training.loss.kind": loss,
        "training.epochs": 80,
    }
    check_bit_identity(trainer, home, configured(toy_config, settings), toy_dataset, kills=2, seed=1)


@with_one_target_and_several
@pytest.mark.parametrize("name", list(LOSSES))
def test_no_step_waits_for_the_gpu(name: str, target_count: int) -> None:
    train("cuda", LOSSES[name], ALL_KINDS, forbid_waiting=True, target_count=target_count)


@with_one_target_and_several
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("dropout", [NO_DROPOUT, ALL_KINDS], ids=["plain", "dropout"])
def test_compiled_steps_are_the_steps(name: str, dropout: Dropout, target_count: int) -> None:
    torch.compiler.reset()  # after too many versions of a function torch goes on without compiling it
    expected, weights = train("cuda", LOSSES[name], dropout, target_count=target_count)
    got, compiled_weights = train("cuda", LOSSES[name], dropout, compiled=True, target_count=target_count)
    for one, other in zip(expected, got, strict=True):
        for field in dataclasses.fields(Step):
            torch.testing.assert_close(getattr(other, field.name), getattr(one, field.name), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(compiled_weights, weights, rtol=1e-3, atol=1e-4)


def test_batches_on_the_gpu_are_the_batches_that_are_read() -> None:
    for one, other in zip(batches(None), batches(torch.device("cuda")), strict=True):
        assert other.input_ids.is_cuda
        assert torch.equal(other.input_ids.cpu(), one.input_ids)
        assert torch.equal(other.target_ids.cpu(), one.target_ids)
