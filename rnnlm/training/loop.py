"""The training loop. Loss, data feed and device are arguments; what it has to say goes to a callback."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from rnnlm.losses.loss import Loss
from rnnlm.progress import Progress
from rnnlm.sequences.batches import Batch
from rnnlm.training.batch_loss import BatchLoss
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.divergence import DivergedError, Watch, all_finite, went_back
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.events import Event, Measurement
from rnnlm.training.optimizer_step import Step, Update, take_step, update
from rnnlm.training.optimizers import norms_of_parts
from rnnlm.training.seeding import random_states_kept, step_generator

logger = logging.getLogger(__name__)
MEASUREMENTS = 200  # a run at most: each waits for the device


@dataclass(frozen=True)
class Plan:
    """How long the loop goes on, and what it does on the way."""

    total_steps: int
    clip_norm: float
    evaluation_steps: frozenset[int]  # after these steps; the end is always evaluated
    log_every_seconds: float
    seed: int = 0
    loss_limit: float = math.inf  # nats per token: training that loses more has diverged
    divergence_retries: int = 0
    accumulation: int = 1  # micro-batches a step and process

    @property
    def measure_every(self) -> int:
        return max(1, self.total_steps // MEASUREMENTS)  # steps


@dataclass(frozen=True)
class Outcome:
    trained_tokens: int
    best_perplexity: float
    best_weights: dict[str, Tensor]


class Training:
    """Teacher forcing over the feed, from wherever `state` is to the end.

    feed(n): the batches from the n-th on, over all epochs. evaluate(step) → validation perplexity. Neither it nor
    report touches a random state of training; nor does when a checkpoint falls. Of several processes (state.world)
    each has its share of the feed, and all of them take every step, checkpoint and evaluation together.
    """

    def __init__(
        self,
        state: TrainingState,
        feed: Callable[[int], Iterable[Batch]],
        loss: Loss,
        plan: Plan,
        evaluate: Callable[[int], float],
        report: Callable[[Event], None],
        checkpoints: Checkpoints | None = None,
        interruption: Interruption | None = None,
        updated: Update = update,
    ) -> None:
        self.state = state
        self.feed = feed
        self.batch_loss = state.world.parallel(BatchLoss(state.model, loss, state.regularizers.dropout))
        self.plan = plan
        self.evaluate = evaluate
        self.report = report
        self.checkpoints = checkpoints
        self.interruption = interruption or Interruption()
        self.updated = updated
        self.watch = Watch(plan.loss_limit)
        self.interval_start, self.interval_tokens = time.perf_counter(), 0

    def run(self) -> Outcome:
        """The weights that were best on the validation split. DivergedError where no retry is left."""
        if self.plan.divergence_retries and self.state.step == 0:
            self.keep()  # to have somewhere to go back to
        while True:
            try:
                return self.run_to_the_end()
            except DivergedError as error:
                self.watch = Watch(self.plan.loss_limit)
                if not went_back(self.state, self.checkpoints, self.plan.divergence_retries, error):
                    raise

    def run_to_the_end(self) -> Outcome:
        state, plan = self.state, self.plan
        state.model.train()
        with (
            Progress("training", plan.total_steps, "step", plan.log_every_seconds, state.step) as progress,
            self.interruption.held_back(),
        ):
            if not self.ended:
                for batch in self.feed(state.batches):
                    # Before the next step, not after the last: a run resumed at this step begins by it.
                    if state.step in plan.evaluation_steps:
                        self.assess()
                        if state.regularizers.early_stopping.says_stop:
                            break
                    self.take(batch, progress)
                    if self.to_be_kept():
                        self.keep()
                    if self.ended:
                        break
            if not state.regularizers.early_stopping.says_stop:  # else the end has been assessed
                self.assess()
        if state.world.leads:
            state.regularizers.at_end()
        assert state.best_perplexity is not None and state.best_weights is not None  # assess saw to it
        return Outcome(state.tokens, state.best_perplexity, state.best_weights)

    @property
    def ended(self) -> bool:
        return self.state.step >= self.plan.total_steps

    def take(self, batch: Batch, progress: Progress) -> None:
        """One step, measured where it is its turn."""
        state, plan = self.state, self.plan
        measured = state.step % plan.measure_every == 0
        rate = state.optimizer.param_groups[0]["lr"]
        generator = step_generator(plan.seed, state.step)
        taken = take_step(
            self.batch_loss,
            state.optimizer,
            batch,
            state.carried,
            plan.clip_norm,
            generator,
            plan.accumulation,
            state.world,
            self.updated,
        )
        self.watch.note(state.step, taken.loss, taken.norm)
        if measured:
            self.watch.check()
        state.carried = taken.state.detach()
        state.schedule.step()
        state.step += 1
        state.regularizers.after_step(state.model, state.step)
        state.batches += 1
        state.tokens += batch.predicted_tokens
        self.interval_tokens += batch.predicted_tokens
        progress.update()
        if measured:
            self.measure(taken, rate, progress)

    def measure(self, taken: Step, rate: float, progress: Progress) -> None:
        now = time.perf_counter()
        speed = self.interval_tokens / (now - self.interval_start)
        clipped = max(1.0, float(taken.norm) / self.plan.clip_norm)  # norms are reported as before clipping
        metrics = {
            "train_loss_nats": float(taken.loss),
            "gradient_norm": float(taken.norm),
            "learning_rate": rate,
            "tokens_per_second": speed,
            "trained_tokens": float(self.state.tokens),
        } | {name: float(value) * clipped for name, value in norms_of_parts(self.state.model).items()}
        self.tell(Measurement(self.state.step, metrics, "training", self.state.setbacks))
        progress.facts(f"loss {float(taken.loss):.3f}, {speed:,.0f} tokens/s")
        self.interval_start, self.interval_tokens = now, 0

    def assess(self) -> None:
        """Score the validation split at this step, after a checkpoint: so a signal may interrupt it at any moment."""
        self.keep()
        state = self.state
        with self.time_out(), state.regularizers.evaluated_weights(state.model):
            with self.interruption.held_back(False), random_states_kept():
                state.model.eval()
                perplexity = self.evaluate(state.step)
                state.model.train()
            if math.isfinite(perplexity):
                state.remember_if_best(perplexity)
        metrics = {"validation_perplexity": perplexity, "validation_nll_nats_per_token": math.log(perplexity)}
        metrics["trained_tokens"] = float(state.tokens)
        self.tell(Measurement(state.step, metrics, "validation", state.setbacks))
        logger.info(
            "training: step %d of %d, validation perplexity %.2f", state.step, self.plan.total_steps, perplexity
        )
        if not math.isfinite(perplexity):
            raise DivergedError(state.step, math.log(perplexity), math.nan)
        state.schedule.observe(math.log(perplexity))
        state.regularizers.early_stopping.observe(perplexity)

    def to_be_kept(self) -> bool:
        """True where a checkpoint is due or a signal came, be it to another process: all of them note it here."""
        due = self.checkpoints is not None and self.checkpoints.due
        asked = self.state.world.largest(2 * (self.interruption.noted or 0) + due)  # both questions in one message
        if asked >= 2:
            self.interruption.noted = asked // 2
        return asked > 0

    def keep(self) -> None:
        """Write a checkpoint, unless this step has one or training has diverged; then leave if a signal came."""
        self.watch.check()
        if self.checkpoints is not None and self.checkpoints.last_step != self.state.step:
            if not all_finite(self.state):
                raise DivergedError(self.state.step, math.nan, math.nan)
            with self.time_out():
                self.checkpoints.write(self.state.step, self.state.state_dict())
        self.interruption.leave_if_noted()

    def tell(self, event: Event) -> None:
        with random_states_kept():
            self.report(event)

    @contextmanager
    def time_out(self) -> Iterator[None]:
        """Time that does not count for the speed."""
        start = time.perf_counter()
        yield
        self.interval_start += time.perf_counter() - start
