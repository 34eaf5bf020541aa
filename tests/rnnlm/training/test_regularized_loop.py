"""The loop with regularisers on, by hand; and it continues from a checkpoint as if there had been no break."""

from pathlib import Path

import numpy as np
import pytest
import torch
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.loop import Outcome, Training, TrainingPlan
from rnnlm.training.regularizers import make_regularizers
from torch import Tensor

from rnnlm.config import ModelKind
from rnnlm.losses.loss import Loss, exact_cross_entropy
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.history import Event, Measurement
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.schedules import Schedule
from tests.configs import KINDS, plain_model, plain_training

EVERYTHING = {
    "dropout.words": 0.2,
    "dropout.inputs": 0.2,
    "dropout.layers": 0.2,
    "dropout.outputs": 0.2,
    "dropout.recurrent": 0.2,
    "averaging.kind": "mean",
    "averaging.start_share": 0.2,
    "averaging.every_steps": 2,
    "schedule.kind": "plateau",
    "schedule.plateau_patience": 1,
    "schedule.warmup_share": 0.1,
    "validation.early_stopping_patience": 3,
    "validation.evaluations": 9,
}
SAMPLED = SampledCrossEntropy(np.array([0, 1, 0, *range(9, 0, -1)]), 5)  # classes that each step draws anew


def network(layers: int = 2, kind: ModelKind = "elman") -> LanguageModel:
    settings = {"kind": kind, "hidden_size": 24, "layers": layers, "head_bias": "zero", "attention_window": 6}
    return build_model(plain_model(settings), 12, seed=0)


def rows(*tokens: int, carries_state: bool = False) -> Batch:
    ids = torch.tensor([tokens])
    return Batch(ids[:, :-1], ids[:, 1:], carries_state, len(tokens) - 1)


def training(
    model: LanguageModel,
    batches: list[Batch],
    settings: dict[str, object],
    perplexities: dict[int, float],
    events: list[Event] | None = None,
    loss: Loss = exact_cross_entropy,
    checkpoints: Checkpoints | None = None,
) -> Training:
    """perplexities: after which steps validation is asked, and what it says; at the end, when not named, 5."""
    config = plain_training({"optimizer.learning_rate": 0.01, "schedule.kind": "constant"} | settings)
    optimizer = make_optimizer(model, config.optimizer)
    regularizers = make_regularizers(model, config, len(batches))
    state = TrainingState(model, optimizer, Schedule(optimizer, config.schedule, len(batches)), regularizers)
    plan = TrainingPlan(config, len(batches), frozenset(perplexities), 10.0)
    heard: list[Event] = [] if events is None else events
    return Training(
        state,
        lambda first: batches[first:],
        loss,
        plan,
        lambda step: perplexities.get(step, 5.0),
        heard.append,
        checkpoints,
    )


def measured(events: list[Event], name: str) -> list[tuple[int, float]]:
    return [(e.step, e.metrics[name]) for e in events if isinstance(e, Measurement) and name in e.metrics]


def test_averaged_weights_are_evaluated_and_kept_and_training_does_not_notice() -> None:
    """The mean of the weights after steps 3 and 4 of 4, and the very same last weights."""
    settings: dict[str, object] = {"averaging.kind": "mean", "averaging.start_share": 0.5, "averaging.every_steps": 1}
    batches = [rows(2, 4, 5, 3), rows(2, 6, 7, 3)] * 2
    own = []
    for steps in (3, 4):
        plain = network()
        training(plain, batches[:steps], {"schedule.warmup_share": 0.0}, {}).run()
        own.append(plain.head.weight.detach().clone())
    averaged = network()
    outcome = training(averaged, batches, settings | {"schedule.warmup_share": 0.0}, {2: 9.0}).run()
    assert torch.equal(averaged.head.weight, own[1])
    torch.testing.assert_close(outcome.best_weights["head.weight"], (own[0] + own[1]) / 2)


@pytest.mark.parametrize(("steps", "warned"), [(5, True), (6, False)])
def test_a_run_that_ends_before_averaging_begins_says_so(
    steps: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 10 steps the sixth is the first that is averaged; patience ends training before it, or after."""
    settings: dict[str, object] = {
        "averaging.kind": "mean",
        "validation.early_stopping_patience": 1,
        "validation.evaluations": 4,
    }
    training(network(), [rows(2, 4, 5, 3)] * 10, settings, {2: 5.0, steps: 6.0}).run()
    assert ("no weights were averaged, because training ended before step 6" in caplog.text) == warned


def test_training_stops_early_at_the_evaluation_that_says_so() -> None:
    """Evaluated after steps 4, 8 and 12 of 16; the second and third are no better, and 12 is not asked twice."""
    events: list[Event] = []
    settings: dict[str, object] = {"validation.early_stopping_patience": 2, "validation.evaluations": 4}
    said = {4: 5.0, 8: 6.0, 12: 5.5}
    outcome = training(network(), [rows(2, 4, 5, 3)] * 16, settings, said, events).run()
    assert measured(events, "validation_perplexity") == list(said.items())
    assert (outcome.trained_tokens, outcome.best_perplexity) == (36, 5.0)


def test_a_plateau_lowers_the_rate_from_the_next_step() -> None:
    events: list[Event] = []
    settings: dict[str, object] = {
        "schedule.kind": "plateau",
        "schedule.plateau_patience": 1,
        "schedule.plateau_factor": 0.1,
    }
    training(
        network(), [rows(2, 4, 5, 3)] * 6, settings | {"schedule.warmup_share": 0.0}, {2: 5.0, 4: 6.0}, events
    ).run()
    rates = [rate for _step, rate in measured(events, "learning_rate")]
    assert rates == pytest.approx([0.01] * 4 + [0.001] * 2)


def test_dropout_depends_on_step_and_seed_alone() -> None:
    first, again, plain = (network() for _ in range(3))
    dropped: list[Tensor] = []

    def loss(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
        dropped.append(hidden.detach().eq(0))
        return exact_cross_entropy(model, hidden, targets)

    three = [rows(2, 4, 5, 3)] * 3
    training(first, three, {"dropout.outputs": 0.5}, {}, loss=loss).run()
    training(again, three, {"dropout.outputs": 0.5}, {}, loss=loss).run()
    training(plain, three, {}, {}).run()
    assert len({tuple(zero.flatten().tolist()) for zero in dropped}) == 3
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, plain.head.weight)


class KilledError(BaseException):
    pass


@pytest.mark.parametrize(
    ("kind", "killed_after", "loss"),
    [
        *(("elman", step, exact_cross_entropy) for step in (3, 9, 19)),
        *((kind, 13, loss) for kind in KINDS for loss in (exact_cross_entropy, SAMPLED)),
    ],
    ids=lambda value: "sampled" if value is SAMPLED else None,
)
@pytest.mark.long
def test_a_resumed_run_with_all_features_is_bit_identical(
    tmp_path: Path, kind: ModelKind, killed_after: int, loss: Loss
) -> None:
    """Killed before the average begins, between two lowerings of the rate, and while stopping early waits."""
    batches = [rows(2, 4, 5, 6, 3, carries_state=step % 5 > 0) for step in range(20)]
    said = {2: 9.0, 5: 8.0, 8: 8.5, 12: 8.2, 15: 7.0, 18: 7.5, 20: 7.2}

    def attempt(folder: Path, kill: bool) -> tuple[LanguageModel, Outcome, TrainingState]:
        model = network(kind=kind)
        checkpoints = Checkpoints(folder, 3, 0.0)
        run = training(model, batches, EVERYTHING, said, loss=loss, checkpoints=checkpoints)
        saved = checkpoints.load_newest()
        if saved is not None:
            run.state.load_state_dict(saved)
            assert run.state.step > 0
        if kill:
            train_step = run.train_step

            def take_or_die(*arguments: object) -> None:
                if run.state.step == killed_after:
                    raise KilledError
                train_step(*arguments)  # type: ignore[arg-type]

            run.train_step = take_or_die  # type: ignore[assignment, method-assign]
        return model, run.run(), run.state

    whole, outcome, end = attempt(tmp_path / "whole", kill=False)
    with pytest.raises(KilledError):
        attempt(tmp_path / "broken", kill=True)
    resumed, outcome_resumed, end_resumed = attempt(tmp_path / "broken", kill=False)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert outcome.best_perplexity == outcome_resumed.best_perplexity == 7.0
    assert all(torch.equal(outcome.best_weights[name], value) for name, value in outcome_resumed.best_weights.items())
    assert end.schedule.state_dict() == end_resumed.schedule.state_dict()
    assert end.schedule.factor.plateaus == 4  # after steps 8, 12, 18 and 20
    assert end.regularizers.early_stopping.state_dict() == end_resumed.regularizers.early_stopping.state_dict()
    assert end.regularizers.early_stopping.waited == 2
