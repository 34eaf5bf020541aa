"""A step of the preset `textbook` is the notebook's step: the same loss and the same weights after it."""

import numpy as np
import pytest
import torch

from benchmarks.textbook import TextbookLanguageModel, TextbookTrainer
from rnnlm.config.moved_settings import flatten
from rnnlm.models.model_factory import build_model
from rnnlm.models.parameter_count import count_parameters
from rnnlm.presets import build_config
from rnnlm.sequences.batches import Batch, shuffled_batches
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.training.optimizer_step import BatchLoss, Updater, choose_loss, take_step
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.schedules import Schedule
from rnnlm.training.seeding import step_generator

VOCABULARY, STEPS = 40, 5


def batches() -> list[Batch]:
    draw = np.random.default_rng(0)
    lines = [[2, *draw.integers(4, VOCABULARY, draw.integers(1, 9)).tolist(), 3] for _ in range(20 * STEPS)]
    return list(shuffled_batches(rows_from_lists(lines), 20, seed=0, epoch=0))


def test_a_step_of_the_preset_equals_the_notebooks_step() -> None:
    """Not equal are the classes that rnnlm never predicts: to the notebook they are given a bias of -30."""
    config = build_config("textbook")
    ours = build_model(config.model, VOCABULARY, seed=0)
    book = TextbookLanguageModel(VOCABULARY, config.model.hidden_size, config.model.layers)
    weights = {name.replace("stack.", ""): value.clone() for name, value in ours.state_dict().items()}
    weights["head.bias"].masked_fill_(ours.never_predicted, -30.0)
    book.load_state_dict(weights)
    trainer = TextbookTrainer(book, learning_rate=1e-3)
    optimizer = make_optimizer(ours, config.training.optimizer)
    schedule = Schedule(optimizer, config.training.schedule, total_steps=STEPS)
    loss = choose_loss(config.training, ~ours.never_predicted.numpy())
    updater = Updater(BatchLoss(ours, loss), optimizer, config.training.optimizer.clip_norm)
    for step, batch in enumerate(batches()):
        found = take_step(updater, batch, None, step_generator(0, step))
        expected = trainer.step(batch.input_ids, batch.target_ids)
        schedule.step()
        assert float(found.loss) == pytest.approx(float(expected), rel=1e-5)
    assert step == STEPS - 1
    trained = {name.replace("stack.", ""): value for name, value in ours.state_dict().items()}
    predicted = ~ours.never_predicted
    for name, value in book.state_dict().items():
        rows = predicted if name.startswith("head.") else slice(None)
        torch.testing.assert_close(trained[name][rows], value[rows], rtol=1e-3, atol=2e-5, msg=name)
        assert not torch.equal(value[rows], weights[name][rows])


@pytest.mark.parametrize("preset", ["textbook", "textbook-brown"])
def test_every_matrix_starts_by_xavier_and_every_bias_at_zero(preset: str) -> None:
    model = build_model(build_config(preset).model, 1_000, seed=0, log_unigram=np.full(1_000, -6.9, np.float32))
    matrices = {name: value for name, value in model.named_parameters() if value.ndim > 1}
    assert len(matrices) == 2 + 2 * 2  # embedding and head; W and U of two layers
    for name, value in matrices.items():
        limit = (6 / sum(value.shape)) ** 0.5
        assert 0.95 * limit < float(value.detach().abs().max()) <= limit, name
    assert all(not value.any() for value in model.parameters() if value.ndim == 1)


def test_the_books_transformer_differs_in_its_layers_alone() -> None:
    elman, transformer = (
        flatten(build_config(name).model_dump(mode="json")) for name in ("textbook", "textbook-transformer")
    )
    assert {path for path, value in elman.items() if transformer[path] != value} == {
        "preset",
        "model.kind",
        "model.heads",
        "model.residual",
        "model.recurrent_initialization",
    }
    sizes = [count_parameters(build_config(name).model, 32_011).total for name in ("textbook", "textbook-transformer")]
    assert sizes == [8_292_619, 8_622_731]
