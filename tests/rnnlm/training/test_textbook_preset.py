"""A training step of the `textbook` preset gives the same loss and weights as the textbook's notebook."""

import numpy as np
import pytest
import torch

from benchmarks.textbook import TextbookLanguageModel, TextbookTrainer
from rnnlm.config.presets import build_config
from rnnlm.models.model_factory import build_model
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
    """The loss of a step and the weights after it agree with those of the notebook.

    The only difference is that rnnlm never predicts some classes. In the notebook, these classes get a bias of -30.
    """
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
