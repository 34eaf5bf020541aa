"""The training loop. Loss, data feed and device are arguments; what it has to say goes to a callback."""

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.errors import TrainingError
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import Batch
from rnnlm.training.events import Event, Measurement
from rnnlm.training.losses.definition import Loss
from rnnlm.training.optimization import layer_norms
from rnnlm.training.progress import Progress
from rnnlm.training.regularizers import Regularizers
from rnnlm.training.schedules import Schedule
from rnnlm.training.seeding import step_generator
from rnnlm.training.stepping import take_step

logger = logging.getLogger(__name__)
MEASUREMENTS = 200  # a run at most: each waits for the device


@dataclass(frozen=True)
class Plan:
    """How long the loop goes on, and what it does on the way."""

    total_steps: int
    maximum_tokens: int | None
    clip_norm: float
    evaluation_steps: frozenset[int]  # after these steps; the end is always evaluated
    log_every_seconds: float
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    trained_tokens: int
    best_perplexity: float
    best_weights: dict[str, Tensor]


def train(
    model: ElmanLanguageModel,
    feed: Iterable[Batch],
    loss: Loss,
    optimizer: Optimizer,
    schedule: Schedule,
    device: torch.device,
    plan: Plan,
    evaluate: Callable[[int], float],
    report: Callable[[Event], None],
    regularizers: Regularizers | None = None,
) -> Outcome:
    """Teacher forcing over the feed; returns the weights that were best on the validation split.

    evaluate(step) → validation perplexity; it touches no random state of training. TrainingError where
    the loss is no longer a number.
    """
    model.to(device).train()
    regularizers = regularizers or Regularizers()
    measure_every = max(1, plan.total_steps // MEASUREMENTS)
    step = tokens = interval_tokens = 0
    state: Tensor | None = None
    best, weights = math.inf, copy_of(model)
    interval_start = time.perf_counter()

    def assess() -> None:
        nonlocal best, weights
        model.eval()
        with regularizers.evaluated_weights(model):
            perplexity = evaluate(step)
            if perplexity < best:
                best, weights = perplexity, copy_of(model)
        model.train()
        schedule.observe(math.log(perplexity))
        regularizers.early_stopping.observe(perplexity)
        metrics = {"validation_perplexity": perplexity, "validation_nll_nats_per_token": math.log(perplexity)}
        report(Measurement(step, metrics | {"trained_tokens": float(tokens)}))
        logger.info("training: step %d of %d, validation perplexity %.2f", step, plan.total_steps, perplexity)

    with Progress(plan.total_steps, plan.log_every_seconds) as progress:
        for batch in feed:
            measured = step % measure_every == 0
            rate = optimizer.param_groups[0]["lr"]
            generator = step_generator(plan.seed, step)
            taken = take_step(model, loss, optimizer, batch, state, plan.clip_norm, generator, regularizers.dropout)
            state = taken.state
            if measured:
                check_finite(step, float(taken.loss), float(taken.norm))
            schedule.step()
            step += 1
            regularizers.after_step(model, step)
            tokens += batch.predicted_tokens
            interval_tokens += batch.predicted_tokens
            progress.update()
            if measured:
                now = time.perf_counter()
                speed = interval_tokens / (now - interval_start)
                clipped = max(1.0, float(taken.norm) / plan.clip_norm)  # norms are reported as before clipping
                metrics = {
                    "train_loss_nats": float(taken.loss),
                    "gradient_norm": float(taken.norm),
                    "learning_rate": rate,
                    "tokens_per_second": speed,
                    "trained_tokens": float(tokens),
                } | {name: float(value) * clipped for name, value in layer_norms(model).items()}
                report(Measurement(step, metrics))
                progress.facts(f"loss {float(taken.loss):.3f}, {speed:,.0f} tokens/s")
                interval_tokens, interval_start = 0, now
            ended = step >= plan.total_steps or (plan.maximum_tokens and tokens >= plan.maximum_tokens)
            if ended:
                break
            if step in plan.evaluation_steps:
                paused = time.perf_counter()
                assess()
                interval_start += time.perf_counter() - paused
                if regularizers.early_stopping.says_stop:
                    break
    if not regularizers.early_stopping.says_stop:  # then its last evaluation is the end's
        assess()
    if not math.isfinite(best):
        raise TrainingError(diverged(step, best, math.nan))
    return Outcome(tokens, best, weights)


def check_finite(step: int, loss: float, norm: float) -> None:
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise TrainingError(diverged(step, loss, norm))


def diverged(step: int, loss: float, norm: float) -> str:
    return (
        f"training diverged at step {step}: loss {loss}, gradient norm {norm};\n"
        "lower training.learning_rate or training.clip_norm, or use model.nonlinearity=tanh"
    )


def copy_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights on the CPU, not shared with the model."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
