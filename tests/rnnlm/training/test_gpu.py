"""Training on a GPU gives the same results as on the CPU. The tests are skipped without a GPU."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import torch

from rnnlm.config import ModelKind, PipelineConfig
from rnnlm.config.model_config import Nonlinearity
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models import dropout as dropout_module
from rnnlm.models.devices import float32_products
from rnnlm.models.dropout import Dropout
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.captured_step import make_updater
from rnnlm.training.optimizer_step import NO_DROPOUT, BatchLoss, Step, Updater, take_step
from rnnlm.training.optimizers import prepare_updates
from rnnlm.training.seeding import step_generator
from tests.configs import KINDS, plain_model, plain_training, random_model
from tests.rnnlm.losses.loss_cases import TEXT_SHARE, with_one_target_and_several, with_targets
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
    captured: bool = False,
    forbid_waiting: bool = False,
    target_count: int = 1,
    precision: str = "float32",
    **settings: object,
) -> tuple[list[Step], list[torch.Tensor]]:
    """Return the results of a few training steps on a device. `settings` are fields of the `model` section."""
    resident = torch.device(device) if device == "cuda" else None
    plain = {"hidden_size": 32, "layers": 2, "residual": True, "head_bias": "zero"}
    model = build_model(plain_model(plain | settings), VOCABULARY, 0)
    model.to(device)
    optimizer = prepare_updates(model, plain_training({"precision": precision}))
    batch_loss = BatchLoss(model, loss, dropout)
    updater = make_updater(batch_loss, optimizer, 1.0) if captured else Updater(batch_loss, optimizer, 1.0)
    taken = []
    with float32_products(precision):
        found = batches(resident, target_count)
        if captured and forbid_waiting:
            found *= 2  # The first step with a batch is recorded, which waits for the device.
        for number, batch in enumerate(found):
            optimizer.param_groups[0]["lr"] = 0.001 * (1 + number)
            warm = STEPS if captured else 3
            torch.cuda.set_sync_debug_mode("error" if forbid_waiting and number >= warm else "default")
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
def test_a_gpu_trains_as_the_cpu_does(
    name: str, dropout: Dropout, target_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without this line, the masks on the GPU would differ from those on the CPU.
    monkeypatch.setattr(dropout_module, "draws_masks", lambda device: False)
    expected, weights = train("cpu", LOSSES[name], dropout, target_count=target_count)
    got, gpu_weights = train("cuda", LOSSES[name], dropout, target_count=target_count)
    for one, other in zip(expected, got, strict=True):
        torch.testing.assert_close(other.loss.cpu(), one.loss, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(other.norm.cpu(), one.norm, rtol=1e-2, atol=1e-4)
    # Some weights may differ by about the learning rate, because AdamW takes a full step even for a gradient that is
    # only a rounding error.
    differences = torch.cat([(one - other).abs().flatten() for one, other in zip(gpu_weights, weights, strict=True)])
    assert differences.quantile(0.999) < 1e-2
    assert differences.max() < 2 * sum(0.001 * (1 + number) for number in range(STEPS))


@pytest.mark.parametrize("settings", [{}, {"residual": False}, {"embedding_size": 16, "tie_embeddings": True}], ids=str)
def test_bfloat16_learns_what_float32_learns(settings: dict[str, object]) -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        loss = ChunkedCrossEntropy(getattr(torch, precision))
        steps, _ = train("cuda", loss, precision=precision, **settings)
        losses.append(torch.stack([step.loss for step in steps]))
    torch.testing.assert_close(*losses, rtol=1e-2, atol=1e-2)


DIAGONAL = {"recurrence": "diagonal", "recurrent_initialization": "spread"}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, {}) for kind in KINDS), *(("elman", {**DIAGONAL, "nonlinearity": name}) for name in NONLINEARITIES)],
)
def test_every_kind_computes_as_on_the_cpu(kind: ModelKind, settings: dict[str, str]) -> None:
    """The logits, state and gradients of every kind of model agree with the CPU's, from a state that is not zero."""
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
@pytest.mark.parametrize("captured", [False, True], ids=["plain", "captured"])
def test_no_step_waits_for_the_gpu(captured: bool, name: str, target_count: int) -> None:
    train("cuda", LOSSES[name], ALL_KINDS, captured, forbid_waiting=True, target_count=target_count)


@with_one_target_and_several
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("dropout", [NO_DROPOUT, ALL_KINDS], ids=["plain", "dropout"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_captured_steps_are_the_steps(precision: str, name: str, dropout: Dropout, target_count: int) -> None:
    check_captured(LOSSES[name], dropout, target_count, precision)


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_every_kind_are_captured(kind: ModelKind, caplog: pytest.LogCaptureFixture) -> None:
    check_captured(LOSSES["exact"], NO_DROPOUT, 1, "bfloat16", kind=kind, residual=None, heads=2)
    assert "not captured" not in caplog.text


def check_captured(loss: Loss, dropout: Dropout, target_count: int, precision: str, **settings: object) -> None:
    expected, weights = train("cuda", loss, dropout, target_count=target_count, precision=precision, **settings)
    got, captured_weights = train("cuda", loss, dropout, True, False, target_count, precision, **settings)
    for one, other in zip(expected, got, strict=True):
        for field in dataclasses.fields(Step):
            # In bfloat16 the results differ by rounding, because cuBLAS chooses other kernels for a padded width.
            limits = {"rtol": 2e-2, "atol": 2e-2} if precision == "bfloat16" else {"rtol": 1e-3, "atol": 1e-4}
            torch.testing.assert_close(getattr(other, field.name), getattr(one, field.name), **limits)
    torch.testing.assert_close(captured_weights, weights, rtol=1e-2, atol=1e-3)


def test_batches_on_the_gpu_are_the_batches_that_are_read() -> None:
    for one, other in zip(batches(None), batches(torch.device("cuda")), strict=True):
        assert other.input_ids.is_cuda
        assert torch.equal(other.input_ids.cpu(), one.input_ids)
        assert torch.equal(other.target_ids.cpu(), one.target_ids)
