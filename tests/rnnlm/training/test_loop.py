"""The loop learns, and says the truth about it."""

import math

import numpy as np
import pytest
import torch
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.loop import Outcome, Training, TrainingPlan
from torch import Tensor

from rnnlm.config import OptimizerConfig
from rnnlm.errors import TrainingError
from rnnlm.losses.loss import Loss, exact_cross_entropy, token_nll
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch, shuffled_batches
from rnnlm.sequences.segmentation import TokenRows
from rnnlm.training.history import Event, Measurement
from rnnlm.training.optimizers import gradient_norms_by_part, make_optimizer
from rnnlm.training.schedules import RateFactor, Schedule
from tests.configs import plain_model, plain_training


def network(vocabulary_size: int = 12, **settings: object) -> LanguageModel:
    config = plain_model({"hidden_size": 24, "head_bias": "zero"} | settings)
    return build_model(config, vocabulary_size, seed=0)


def batch(rows: list[list[int]], carries_state: bool = False) -> Batch:
    """Rows of token ids, padded at the right."""
    length = max(map(len, rows))
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    targets = ids[:, 1:]
    return Batch(ids[:, :-1], targets, carries_state, int((targets != 0).sum()))


def run(
    model: LanguageModel,
    batches: list[Batch],
    loss: Loss = exact_cross_entropy,
    perplexities: list[float] | None = None,
    report: list[Event] | None = None,
    **settings: object,
) -> Outcome:
    config = plain_training({"optimizer.learning_rate": 0.01, "schedule.kind": "constant", "device": "cpu"} | settings)
    optimizer = make_optimizer(model, config.optimizer)
    script = iter(perplexities or [])
    plan = TrainingPlan(config, len(batches), frozenset({len(batches) // 2}) - {0}, 10.0)
    events: list[Event] = [] if report is None else report
    state = TrainingState(model, optimizer, Schedule(optimizer, config.schedule, len(batches)))
    return Training(
        state, lambda first: batches[first:], loss, plan, lambda step: next(script, 5.0), events.append
    ).run()


@pytest.mark.long
def test_one_batch_is_overfitted() -> None:
    model = network()
    one = batch([[2, 4, 5, 6, 3], [2, 7, 5, 8, 9, 3], [2, 10, 11, 3]])
    run(model, [one] * 300)
    hidden, _ = model.hidden(one.input_ids)
    # The first word of each row is a draw among three: its loss cannot fall below log 3.
    first = float(token_nll(model, hidden[:, :1], one.target_ids[:, :1]).double().sum())
    rest = float(token_nll(model, hidden[:, 1:], one.target_ids[:, 1:]).double().sum())
    assert first == pytest.approx(3 * math.log(3), rel=0.01)
    assert rest / (one.predicted_tokens - 3) < 0.01


@pytest.mark.long
def test_counting_is_learnt() -> None:
    """After 4, 5, 6 comes 7: the numbers 4 … 11 in a circle, from any start, further than it was trained."""
    rows = np.concatenate([[2] + [4 + (start + step) % 8 for step in range(10)] for start in range(8)])
    tokens = TokenRows(rows.astype(np.int32), np.arange(9) * 11)
    model = network()
    run(model, [b for epoch in range(150) for b in shuffled_batches(tokens, 8, 0, epoch)])
    ids = torch.tensor([[2, *(4 + step % 8 for step in range(40))]])
    predicted = model(ids)[0].argmax(dim=-1)[0, 1:]
    assert predicted.tolist() == [4 + (step + 1) % 8 for step in range(40)]


def test_padding_changes_neither_loss_nor_gradient() -> None:
    model = network().double()
    row = [2, 4, 5, 3]
    gradients = []
    for ids in (batch([row]), batch([[*row, 0, 0]])):
        model.zero_grad()
        hidden, _ = model.hidden(ids.input_ids)
        exact_cross_entropy(model, hidden, ids.target_ids).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for alone, padded in zip(*gradients, strict=True):
        torch.testing.assert_close(alone, padded)


def test_the_state_goes_on_between_windows_and_its_gradient_does_not() -> None:
    seen: list[Tensor] = []
    model = network()
    hidden = model.hidden

    def watched(ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        seen.append(torch.zeros(0) if state is None else state)
        return hidden(ids, state, mask)

    model.hidden = watched  # type: ignore[assignment, method-assign]
    run(model, [batch([[2, 4, 5]]), batch([[5, 6, 7]], True), batch([[2, 8, 9]])])
    assert [state.numel() > 0 for state in seen] == [False, True, False]
    assert not seen[1].requires_grad


def test_the_best_weights_are_returned_not_the_last() -> None:
    model = network()
    outcome = run(model, [batch([[2, 4, 5, 3]])] * 10, perplexities=[7.0, 9.0])
    assert outcome.best_perplexity == 7.0
    assert not torch.equal(outcome.best_weights["head.weight"], model.head.weight)


@pytest.mark.parametrize("worth", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_with_step_and_advice(worth: float) -> None:
    def broken(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
        return hidden.sum() * worth

    with pytest.raises(TrainingError, match=r"step 0: loss .*, gradient norm .*\n.*learning_rate"):
        run(network(), [batch([[2, 4, 5, 3]])] * 10, loss=broken)


@pytest.mark.parametrize("residual", [False, True])
def test_measurements_hold_what_happened(residual: bool) -> None:
    events: list[Event] = []
    run(network(layers=2, residual=residual), [batch([[2, 4, 5, 3]])] * 4, report=events)
    steps = [event for event in events if isinstance(event, Measurement) and "train_loss_nats" in event.metrics]
    assert [event.step for event in steps] == [1, 2, 3, 4]
    assert [event.metrics["trained_tokens"] for event in steps] == [3, 6, 9, 12]
    first = steps[0].metrics
    parts = [first[f"gradient_norm_{name}"] for name in ("embedding", "layer_0", "layer_1", "head")]
    assert math.hypot(*parts) == pytest.approx(first["gradient_norm"], rel=1e-5)
    assert steps[-1].metrics["train_loss_nats"] < first["train_loss_nats"]


def test_norms_of_parts_by_hand() -> None:
    model = network()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    norms = gradient_norms_by_part(model)
    assert float(norms["gradient_norm_layer_0"]) == pytest.approx(math.sqrt(24 * 24 * 2 + 24))
    assert float(norms["gradient_norm_head"]) == pytest.approx(math.sqrt(24 * 12 + 12))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]),
        ("cosine", [1 / 3, 2 / 3, 1] + [0.5 + 0.5 * math.cos(math.pi * k / 8) for k in range(1, 8)]),
    ],
)
def test_the_learning_rate_warms_up_and_falls(schedule: str, expected: list[float]) -> None:
    config = plain_training({"schedule.kind": schedule, "schedule.warmup_share": 0.2})
    assert [RateFactor(config.schedule, 10)(step) for step in range(10)] == pytest.approx(expected)


def test_clipping_bounds_the_step() -> None:
    """With plain gradient descent at rate 1 the weights move by the clipped norm at most."""
    model = network()
    before = torch.cat([parameter.detach().flatten().clone() for parameter in model.parameters()])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    config = plain_training({"schedule.kind": "constant", "schedule.warmup_share": 0.0, "optimizer.clip_norm": 0.01})
    plan = TrainingPlan(config, 1, frozenset(), 10.0)
    schedule = Schedule(optimizer, config.schedule, 1)
    one = [batch([[2, 4, 5, 3]])]
    state = TrainingState(model, optimizer, schedule)
    Training(state, lambda first: one, exact_cross_entropy, plan, lambda step: 5.0, lambda event: None).run()
    after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert float((after - before).norm()) == pytest.approx(0.01, rel=1e-3)


def test_biases_do_not_decay() -> None:
    groups = make_optimizer(network(), OptimizerConfig(weight_decay=0.3)).param_groups
    assert [(group["weight_decay"], {parameter.ndim for parameter in group["params"]}) for group in groups] == [
        (0.3, {2}),
        (0.0, {1}),
    ]
