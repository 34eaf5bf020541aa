"""The training loop. Loss, data feed and device are arguments; events go to a callback."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor

from rnnlm.config import TrainingConfig
from rnnlm.display.progress import Progress
from rnnlm.losses.loss import Loss
from rnnlm.sequences.batches import Batch
from rnnlm.storage.records import ProcessChange
from rnnlm.training.batch_loss import BatchLoss
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.divergence import DivergedError, DivergenceMonitor, all_finite, roll_back_training
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.events import Event, Measurement
from rnnlm.training.optimizer_step import Step, Updater, take_step
from rnnlm.training.optimizers import gradient_norms_by_part
from rnnlm.training.seeding import preserve_random_states, step_generator

logger = logging.getLogger(__name__)
MEASUREMENTS = 200  # per run at most: each waits for the device


@dataclass(frozen=True)
class TrainingPlan:
    """Length of the loop, and what it does on the way."""

    config: TrainingConfig
    total_steps: int
    validation_steps: frozenset[int]  # validate after these steps, and always at the end
    log_every_seconds: float
    mean_tokens: float | None = None  # of a batch; see Updater
    loss_limit: float = math.inf  # nats per token; training has diverged above it

    @property
    def measure_every(self) -> int:
        return max(1, self.total_steps // MEASUREMENTS)  # steps


@dataclass(frozen=True)
class Outcome:
    trained_tokens: int
    best_perplexity: float
    best_weights: dict[str, Tensor]
    process_changes: tuple[ProcessChange, ...] = ()


@dataclass
class Training:
    """Teacher forcing over the feed, from the step of `state` to the end.

    feed(n): the batches from the n-th on, over all epochs. validate(step) → validation perplexity. Neither validation
    nor events nor the time of a checkpoint changes a random state of training. In a process group each rank has its
    share of the feed, and all ranks take every step, checkpoint and validation together.
    """

    state: TrainingState
    feed: Callable[[int], Iterable[Batch]]
    loss: Loss
    plan: TrainingPlan
    validate: Callable[[int], float]
    on_event: Callable[[Event], None]
    checkpoints: Checkpoints | None = None
    interruption: Interruption = field(default_factory=Interruption)
    compiled: bool = False  # replay each step of a GPU as a CUDA graph

    def __post_init__(self) -> None:
        state, clip_norm = self.state, self.plan.config.optimizer.clip_norm
        batch_loss = BatchLoss(state.model, self.loss, state.regularizers.dropout)
        if self.compiled:
            batch_loss.compile(mode="reduce-overhead")
        parallel = state.process_group.data_parallel(batch_loss)
        self.updater = Updater(parallel, state.optimizer, clip_norm, state.process_group, self.plan.mean_tokens)
        self.monitor = DivergenceMonitor(self.plan.loss_limit)
        self.interval_start, self.interval_tokens = time.perf_counter(), 0

    def run(self) -> Outcome:
        """The weights with the best validation perplexity. DivergedError if no retry is left."""
        retries = self.plan.config.divergence.retries
        if retries and self.state.step == 0:
            self.save_checkpoint()  # so that a rollback is possible from the start
        while True:
            try:
                return self.run_to_end()
            except DivergedError as error:
                self.monitor = DivergenceMonitor(self.plan.loss_limit)
                if not roll_back_training(self.state, self.checkpoints, retries, error):
                    raise

    def run_to_end(self) -> Outcome:
        state, plan, patience = self.state, self.plan, self.state.regularizers.early_stopping
        state.model.train()
        with (
            Progress("training", plan.total_steps, "step", plan.log_every_seconds, state.step) as progress,
            self.interruption.deferred(),
        ):
            if state.step < plan.total_steps:
                for batch in self.feed(state.step):
                    # Before the next step, not after the last one, because a resumed run starts here.
                    if state.step in plan.validation_steps:
                        self.validate_and_record()
                        if patience.exhausted:
                            break
                    self.train_step(batch, progress)
                    if self.checkpoint_due():
                        self.save_checkpoint()
                    if state.step >= plan.total_steps:
                        break
            if not patience.exhausted:  # else this step has been validated
                self.validate_and_record()
        if state.process_group.is_main:
            state.regularizers.warn_at_end()
        assert state.best_perplexity is not None
        assert state.best_weights is not None
        return Outcome(state.tokens, state.best_perplexity, state.best_weights, tuple(state.process_changes))

    def train_step(self, batch: Batch, progress: Progress) -> None:
        state, plan = self.state, self.plan
        measured = state.step % plan.measure_every == 0
        rate = state.optimizer.param_groups[0]["lr"]
        generator = step_generator(plan.config.seed, state.step)
        step = take_step(self.updater, batch, state.carried, generator, plan.config.accumulation)
        self.monitor.note(state.step, step.loss, step.norm)
        if measured:
            self.monitor.check()
        state.carried = step.state
        state.schedule.step()
        state.step += 1
        state.regularizers.after_step(state.model, state.step)
        state.tokens += batch.predicted_tokens
        self.interval_tokens += batch.predicted_tokens
        progress.update()
        if measured:
            self.measure(step, rate, progress)

    def measure(self, step: Step, rate: float, progress: Progress) -> None:
        now = time.perf_counter()
        speed = self.interval_tokens / (now - self.interval_start)
        clip_norm = self.plan.config.optimizer.clip_norm
        # Norms are reported as before clipping.
        clipping = 1.0 if clip_norm is None else max(1.0, float(step.norm) / clip_norm)
        metrics = {
            "train_loss_nats": float(step.loss),
            "gradient_norm": float(step.norm),
            "learning_rate": rate,
            "tokens_per_second": speed,
            "trained_tokens": float(self.state.tokens),
        } | {name: float(value) * clipping for name, value in gradient_norms_by_part(self.state.model).items()}
        self.emit(Measurement(self.state.step, metrics, "training", self.state.rollbacks))
        best = self.state.best_perplexity
        validated = "" if best is None else f"best sampled validation perplexity {best:.2f}"
        progress.facts(f"loss {float(step.loss):.3f}, {speed:,.0f} tokens/s", validated)
        self.interval_start, self.interval_tokens = now, 0

    def validate_and_record(self) -> None:
        """Write a checkpoint, then validate: so a signal may interrupt validation at any moment."""
        self.save_checkpoint()
        state = self.state
        with self.exclude_time(), state.regularizers.evaluated_weights(state.model):
            with self.interruption.deferred(False), preserve_random_states():
                state.model.eval()
                perplexity = self.validate(state.step)
                state.model.train()
            if math.isfinite(perplexity):
                state.remember_if_best(perplexity)
        nll_nats_per_token = math.log(perplexity)
        metrics = {"validation_perplexity": perplexity, "validation_nll_nats_per_token": nll_nats_per_token}
        metrics["trained_tokens"] = float(state.tokens)
        self.emit(Measurement(state.step, metrics, "validation", state.rollbacks))
        logger.info(
            "training: step %d of %d, sampled validation perplexity %.2f", state.step, self.plan.total_steps, perplexity
        )
        if not math.isfinite(perplexity):
            raise DivergedError(state.step, nll_nats_per_token, math.nan)
        state.schedule.observe(nll_nats_per_token)
        state.regularizers.early_stopping.observe(perplexity)

    def checkpoint_due(self) -> bool:
        """True on all ranks if a checkpoint is due, or if any rank has received a signal."""
        due = self.checkpoints is not None and self.checkpoints.due
        signal = self.interruption.received or 0
        largest = self.state.process_group.max(2 * signal + due)  # both questions in one message
        if largest >= 2:
            self.interruption.received = largest // 2
        return largest > 0

    def save_checkpoint(self) -> None:
        """Write a checkpoint unless this step has one, then leave the loop if a signal was received.

        DivergedError if training has diverged: a checkpoint must be good to resume from.
        """
        self.monitor.check()
        if self.checkpoints is not None and self.checkpoints.last_step != self.state.step:
            if not all_finite(self.state):
                raise DivergedError(self.state.step, math.nan, math.nan)
            with self.exclude_time():
                self.checkpoints.write(self.state.step, self.state.state_dict())
        self.interruption.raise_if_received()

    def emit(self, event: Event) -> None:
        with preserve_random_states():
            self.on_event(event)

    @contextmanager
    def exclude_time(self) -> Iterator[None]:
        """Leave the time inside the context out of the measured speed."""
        start = time.perf_counter()
        yield
        self.interval_start += time.perf_counter() - start
