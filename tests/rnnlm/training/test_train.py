"""The training loop learns, reports correct values, and continues from a checkpoint as if it had never stopped."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rnnlm.config import ModelKind
from rnnlm.losses.loss import Loss, exact_cross_entropy, token_nll
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import shuffled_batches
from rnnlm.sequences.segmentation import TokenRows
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.history import Measurement
from rnnlm.training.training_loop import TrainingLoop
from tests.configs import KINDS
from tests.rnnlm.training.small_training_loop import batch, make_loop, network

ONE = batch([2, 4, 5, 3])
# For this sampled loss, each step draws new classes.
SAMPLED = SampledCrossEntropy(np.array([0, 1, 0, *range(9, 0, -1)]), 5)
EVERYTHING = {
    **{f"dropout.{name}": 0.2 for name in ("words", "inputs", "layers", "outputs", "recurrent")},
    "averaging.kind": "mean",
    "averaging.start_share": 0.2,
    "averaging.every_steps": 2,
    "schedule.kind": "plateau",
    "schedule.plateau_patience": 1,
    "schedule.warmup_share": 0.1,
    "validation.early_stopping_patience": 3,
    "validation.evaluations": 9,
}


@pytest.mark.long
def test_one_batch_is_overfitted() -> None:
    model = network()
    one = batch([2, 4, 5, 6, 3], [2, 7, 5, 8, 9, 3], [2, 10, 11, 3])
    make_loop(model, [one] * 300).run()
    nll = token_nll(model, model.hidden(one.input_ids)[0], one.target_ids).double()
    # The first word of each row is drawn from three words, so its loss cannot be below log 3.
    assert float(nll[:, 0].sum()) == pytest.approx(3 * math.log(3), rel=0.01)
    assert float(nll[:, 1:].sum()) / (one.predicted_tokens - 3) < 0.01


@pytest.mark.long
def test_counting_is_learnt() -> None:
    """A network learns to count cyclically from any number, even in longer sequences than those in training.

    The text consists of the numbers 4 … 11, after which it begins again with 4.
    """
    rows = np.concatenate([[2] + [4 + (start + step) % 8 for step in range(10)] for start in range(8)])
    tokens = TokenRows(rows.astype(np.int32), np.arange(9) * 11)
    model = network()
    make_loop(model, [one for epoch in range(150) for one in shuffled_batches(tokens, 8, 0, epoch)]).run()
    predicted = model(torch.tensor([[2, *(4 + step % 8 for step in range(40))]]))[0].argmax(dim=-1)[0, 1:]
    assert predicted.tolist() == [4 + (step + 1) % 8 for step in range(40)]


def test_state_is_carried_between_windows_without_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor | None] = []
    model = network()
    hidden = model.hidden

    def watched(ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        seen.append(state)
        return hidden(ids, state, mask)

    monkeypatch.setattr(model, "hidden", watched)
    make_loop(model, [batch([2, 4, 5]), batch([5, 6, 7], carries_state=True), batch([2, 8, 9])]).run()
    assert [state is not None for state in seen] == [False, True, False]
    assert seen[1] is not None
    assert not seen[1].requires_grad


@pytest.mark.parametrize("residual", [False, True])
def test_measurements_describe_each_step(residual: bool) -> None:
    measured: list[Measurement] = []
    make_loop(network(layers=2, residual=residual), [ONE] * 4, record=measured.append).run()
    steps = [one for one in measured if one.kind == "training"]
    assert [one.step for one in steps] == [1, 2, 3, 4]
    assert [one.metrics["trained_tokens"] for one in steps] == [3, 6, 9, 12]
    first = steps[0].metrics
    parts = [first[f"gradient_norm_{name}"] for name in ("embedding", "layer_0", "layer_1", "head")]
    assert math.hypot(*parts) == pytest.approx(first["gradient_norm"], rel=1e-5)
    assert steps[-1].metrics["train_loss_nats"] < first["train_loss_nats"]


def test_best_weights_are_returned_instead_of_last() -> None:
    model = network()
    weights, perplexity = make_loop(model, [ONE] * 10, perplexities={5: 7.0, 10: 9.0}).run()
    assert perplexity == 7.0
    assert not torch.equal(weights["head.weight"], model.head.weight)


def test_averaged_weights_are_saved_and_training_is_unchanged() -> None:
    """The saved weights are the average, and averaging does not change training.

    The average is the mean of the weights after steps 3 and 4 of 4.
    """
    settings = {"averaging.kind": "mean", "averaging.start_share": 0.5, "averaging.every_steps": 1}
    batches = [ONE, batch([2, 6, 7, 3])] * 2
    own = []
    for steps in (3, 4):
        plain = network()
        make_loop(plain, batches[:steps]).run()
        own.append(plain.head.weight.detach().clone())
    averaged = network()
    weights, _ = make_loop(averaged, batches, settings, perplexities={2: 9.0}).run()
    assert torch.equal(averaged.head.weight, own[1])
    torch.testing.assert_close(weights["head.weight"], (own[0] + own[1]) / 2)


@pytest.mark.parametrize(("steps", "warned"), [(5, True), (6, False)])
def test_a_run_that_ends_before_averaging_warns(steps: int, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A run that ends before averaging begins logs a warning.

    The sixth of 10 steps is the first averaged step. Early stopping ends training before or after it.
    """
    settings = {
        "averaging.kind": "mean",
        "validation.early_stopping_patience": 1,
        "validation.evaluations": 4,
    }
    make_loop(network(), [ONE] * 10, settings, perplexities={2: 5.0, steps: 6.0}).run()
    assert ("no weights were averaged, because training ended before step 6" in caplog.text) == warned


def test_training_stops_early_and_validates_that_step_once() -> None:
    """Early stopping ends training after the third validation. The step is not validated a second time.

    Validations follow steps 4, 8 and 12 of 16. The second and third are not better than the first.
    """
    measured: list[Measurement] = []
    settings = {"validation.early_stopping_patience": 2, "validation.evaluations": 4}
    perplexities = {4: 5.0, 8: 6.0, 12: 5.5}
    loop = make_loop(network(), [ONE] * 16, settings, perplexities=perplexities, record=measured.append)
    _, best = loop.run()
    found = {one.step: one.metrics["validation_perplexity"] for one in measured if one.kind == "validation"}
    assert found == perplexities
    assert (loop.tokens, best) == (36, 5.0)


def test_dropout_depends_only_on_step_and_seed() -> None:
    dropped: list[Tensor] = []

    def loss(model: LanguageModel, hidden: Tensor, targets: Tensor, sample: Tensor | None) -> Tensor:
        dropped.append(hidden.detach().eq(0))
        return exact_cross_entropy(model, hidden, targets)

    first, again, plain = network(), network(), network()
    make_loop(first, [ONE] * 3, {"dropout.outputs": 0.5}, loss).run()
    make_loop(again, [ONE] * 3, {"dropout.outputs": 0.5}, loss).run()
    make_loop(plain, [ONE] * 3).run()
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
    """A run with all features that is killed and resumed has exactly the same result as an uninterrupted run.

    Training is killed before averaging begins, between two rate reductions, or while early stopping waits.
    """
    batches = [batch([2, 4, 5, 6, 3], carries_state=step % 5 > 0) for step in range(20)]
    perplexities = {2: 9.0, 5: 8.0, 8: 8.5, 12: 8.2, 15: 7.0, 18: 7.5, 20: 7.2}

    def attempt(folder: Path, kill: bool) -> tuple[TrainingLoop, dict[str, Tensor]]:
        model = network(kind=kind, layers=2)
        # The sampled loss has sparse gradients.
        settings = EVERYTHING | {"loss.kind": "sampled" if loss is SAMPLED else "exact"}
        loop = make_loop(model, batches, settings, loss, perplexities, checkpoints=Checkpoints(folder, 3, 0.0))
        loop.resume()
        train_step = loop.train_step

        def take_or_die(*arguments: Any) -> None:
            if loop.step == killed_after and kill:
                raise KilledError
            train_step(*arguments)

        loop.train_step = take_or_die  # type: ignore[assignment, method-assign]
        return loop, loop.run()[0]

    whole, best = attempt(tmp_path / "whole", kill=False)
    with pytest.raises(KilledError):
        attempt(tmp_path / "broken", kill=True)
    resumed, best_again = attempt(tmp_path / "broken", kill=False)
    assert all(map(torch.equal, whole.model.parameters(), resumed.model.parameters()))
    assert all(torch.equal(best[name], value) for name, value in best_again.items())
    assert whole.best.perplexity == resumed.best.perplexity == 7.0
    assert whole.schedule.state_dict() == resumed.schedule.state_dict()
    # The learning rate was lowered on the plateaus after steps 8, 12, 18 and 20.
    assert whole.schedule.factor.plateaus == 4
    assert whole.early_stopping.state_dict() == resumed.early_stopping.state_dict()
    assert whole.early_stopping.waited == 2
