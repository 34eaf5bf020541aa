"""The training loop: it iterates over the batches, with validations, checkpoints and measurements in between."""

import logging
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rnnlm.config.training_config import TrainingConfig
from rnnlm.display.progress import Progress
from rnnlm.losses.loss import Loss
from rnnlm.models.dropout import Dropout
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.training.averaging import averaging_start, make_averaging
from rnnlm.training.best_weights import BestWeights
from rnnlm.training.captured_step import make_updater
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.divergence import DivergedError, DivergenceCheck, check_weights
from rnnlm.training.history import Measurement
from rnnlm.training.optimizer_step import BatchLoss, Step, take_step
from rnnlm.training.optimizers import norms_before_clipping, prepare_updates
from rnnlm.training.pace import Pace
from rnnlm.training.process_group import SINGLE_PROCESS, ProcessChanges, ProcessGroup
from rnnlm.training.schedules import Patience, Schedule, validation_steps
from rnnlm.training.seeding import preserve_random_states, random_states, set_random_states, step_generator
from rnnlm.training.speed_meter import SpeedMeter

logger = logging.getLogger(__name__)
MEASUREMENTS = 200  # The largest number of measurements of a run, each of which waits for the device.


@dataclass
class TrainingLoop:
    """The training of a network with teacher forcing, together with the whole state that a checkpoint stores.

    Neither validation, nor `record`, nor the time of a checkpoint changes the random state of training. In a process
    group, each rank has its part of each batch, and all ranks perform every step, checkpoint and validation together.

    Args:
        model: The network, already on its device.
        feed: A function that takes the number of a batch, and returns an iterable of all batches from this one on.
        validate: A function that takes the step and returns the validation perplexity.
        record: A function that is called with each measurement.
        total_steps: The number of steps in all epochs.
        process_group: The group of this process. All ranks have the same state, except for `carried`.
        mean_tokens: The mean number of predicted tokens in a batch; see Updater.
        widths_vary: Whether the widths of batches vary; see CapturedUpdater.
        pace: A timer that may change total_steps. If it is None, total_steps is final.
        loss_limit: The loss in nats per token above which training has diverged.
    """

    model: LanguageModel
    config: TrainingConfig
    loss: Loss
    feed: Callable[[int], Iterable[Batch]]
    validate: Callable[[int], float]
    record: Callable[[Measurement], None]
    total_steps: int
    checkpoints: Checkpoints | None = None
    interruption: Interruption = field(default_factory=Interruption)
    process_group: ProcessGroup = SINGLE_PROCESS
    mean_tokens: float | None = None
    widths_vary: bool = False
    pace: Pace | None = None
    loss_limit: float = math.inf
    log_every_seconds: float = 10.0

    def __post_init__(self) -> None:
        config = self.config
        self.optimizer = prepare_updates(self.model, config, self.process_group.size)
        self.schedule = Schedule(self.optimizer, config.schedule, self.total_steps)
        self.averaging = make_averaging(self.model, config.averaging, self.total_steps)
        self.early_stopping = Patience(config.validation.early_stopping_patience)
        batch_loss = BatchLoss(self.model, self.loss, Dropout(**config.dropout.resolved().model_dump()))
        parallel = self.process_group.data_parallel(batch_loss)
        self.updater = make_updater(
            parallel, self.optimizer, config.optimizer.clip_norm, self.process_group, self.mean_tokens, self.widths_vary
        )
        self.validation_steps = validation_steps(self.total_steps, config.validation.evaluations)
        self.measure_every = max(1, self.total_steps // MEASUREMENTS)  # Steps from one measurement to the next.
        # A checkpoint contains the following state and that of the model, optimizer and schedule. A checkpoint at
        # `step` is written before the validation at this step.
        self.step = 0  # The number of optimizer steps so far, one for each batch of the feed, over all epochs.
        self.tokens = 0  # The number of predicted tokens on which the model was trained.
        self.rollbacks = 0  # The number of rollbacks after divergence.
        self.carried: Tensor | None = None  # The recurrent state after this rank's rows of the last batch, (b, L, S).
        self.best = BestWeights()
        self.process_changes = ProcessChanges(self.process_group)
        # The following state is not part of a checkpoint.
        self.divergence = DivergenceCheck(self.loss_limit)
        self.speed = SpeedMeter()

    def run(self) -> tuple[dict[str, Tensor], float]:
        """Train to the end. Return the weights with the best validation perplexity, and this perplexity.

        Raise DivergedError if training diverges and no retry is left.
        """
        if self.config.divergence.retries and self.step == 0:
            self.save_checkpoint()  # Training can roll back to this checkpoint, which contains the initial state.
        while True:
            try:
                self.run_to_end()
                break
            except DivergedError as error:
                if not self.roll_back(error):
                    raise
        if self.averaging is not None and self.process_group.is_main:
            self.averaging.warn_if_unused()
        return self.best.found()

    def run_to_end(self) -> None:
        self.model.train()
        with (
            Progress("training", self.total_steps, "step", self.log_every_seconds, self.step) as progress,
            self.interruption.deferred(),
        ):
            for batch in self.feed(self.step) if self.step < self.total_steps else ():
                # The validation precedes the next step, so that a run interrupted in it resumes with it.
                if self.step in self.validation_steps:
                    self.validate_and_record()
                    if self.early_stopping.exhausted:
                        return
                self.train_step(batch, progress)
                checkpoint_due = self.checkpoints is not None and self.checkpoints.due
                if self.interruption.received_by_any(self.process_group, or_else=checkpoint_due):
                    self.save_checkpoint()
                if self.step >= self.total_steps:
                    break
            self.validate_and_record()

    def train_step(self, batch: Batch, progress: Progress) -> None:
        measured = self.step % self.measure_every == 0
        rate = self.optimizer.param_groups[0]["lr"]
        generator = step_generator(self.config.seed, self.step)
        step = take_step(self.updater, batch, self.carried, generator, self.config.accumulation)
        self.divergence.add(self.step, step.loss, step.norm)
        if measured:
            self.divergence.check()
        self.carried = step.state
        self.schedule.step()
        self.step += 1
        if self.averaging is not None:
            self.averaging.update(self.model, self.step)
        self.tokens += batch.predicted_tokens
        self.speed.tokens += batch.predicted_tokens
        progress.update()
        if measured:
            self.measure(step, rate, progress)

    def measure(self, step: Step, rate: float, progress: Progress) -> None:
        seconds, speed = self.speed.restart()
        metrics = {
            "train_loss_nats": float(step.loss),
            "gradient_norm": float(step.norm),
            "learning_rate": rate,
            "tokens_per_second": speed,
            "trained_tokens": float(self.tokens),
            **norms_before_clipping(self.model, float(step.norm), self.config.optimizer.clip_norm),
        }
        with preserve_random_states():
            self.record(Measurement(self.step, metrics, "training", self.rollbacks))
        best = self.best.perplexity
        validated = "" if best is None else f"best sampled validation perplexity {best:.2f}"
        progress.facts(f"loss {float(step.loss):.3f}, {speed:,.0f} tokens/s", validated)
        if self.pace is not None:
            self.plan_again(self.pace, seconds, progress)

    def plan_again(self, pace: Pace, seconds: float, progress: Progress) -> None:
        """Change the number of steps if they are faster or slower than expected. All ranks use the plan of rank 0."""
        steps = pace.plan(self.step, self.updater.recorded_shapes, seconds) if self.process_group.is_main else 0
        if not (steps := self.process_group.max(steps)):
            return
        self.pace = None
        if steps != self.total_steps:
            logger.info("training: the given minutes allow %d steps instead of %d", steps, self.total_steps)
            self.set_length(steps)
            progress.total = steps
            self.save_checkpoint()  # This checkpoint contains the new plan, for a run that resumes.

    def set_length(self, total_steps: int) -> None:
        """Adjust the learning rate, validations and averaging to a new total number of steps."""
        self.total_steps = self.schedule.factor.total_steps = total_steps
        self.validation_steps = validation_steps(total_steps, self.config.validation.evaluations)
        if self.averaging is not None:
            self.averaging.start_step = averaging_start(self.config.averaging, total_steps)

    def validate_and_record(self) -> None:
        """Write a checkpoint, then validate. Hence a signal that interrupts the validation loses no step."""
        self.save_checkpoint()
        with self.speed.paused(), self.averaging.applied(self.model) if self.averaging else nullcontext():
            with self.interruption.deferred(False), preserve_random_states():
                self.model.eval()
                perplexity = self.validate(self.step)
                self.model.train()
            self.best.observe(perplexity, self.model)
        nll_nats_per_token = math.log(perplexity)
        metrics = {
            "validation_perplexity": perplexity,
            "validation_nll_nats_per_token": nll_nats_per_token,
            "trained_tokens": float(self.tokens),
        }
        with preserve_random_states():
            self.record(Measurement(self.step, metrics, "validation", self.rollbacks))
        logger.info(
            "training: step %d of %d, sampled validation perplexity %.2f", self.step, self.total_steps, perplexity
        )
        if not math.isfinite(perplexity):
            raise DivergedError(self.step, nll_nats_per_token, math.nan)
        self.schedule.observe(nll_nats_per_token)
        self.early_stopping.observe(perplexity)

    def roll_back(self, error: DivergedError) -> bool:
        """Load the last checkpoint before the divergence and halve the learning rate. Return False if no retry is left.

        The lower learning rate applies to all further steps.
        """
        self.divergence.forget()
        rollbacks, retries = self.rollbacks + 1, self.config.divergence.retries
        saved = self.checkpoints.load_before(error.step) if self.checkpoints and rollbacks <= retries else None
        if saved is None:
            return False
        self.load_state_dict(saved)
        self.schedule.scale_rates(0.5 ** (rollbacks - self.rollbacks))
        self.rollbacks = rollbacks
        message = "%s\ntraining rolls back to step %d with half the learning rate (retry %d of %d)"
        logger.warning(message, str(error).splitlines()[0].rstrip(";"), self.step, rollbacks, retries)
        return True

    def save_checkpoint(self) -> None:
        """Write a checkpoint unless this step already has one. Leave the loop if a signal was received.

        Raise DivergedError if training has diverged, because no run could resume from such a checkpoint.
        """
        self.divergence.check()
        if self.checkpoints is not None and self.checkpoints.last_step != self.step:
            check_weights(self.model, self.step)
            with self.speed.paused():
                self.checkpoints.write(self.step, self.state_dict())
        self.interruption.raise_if_received()

    def resume(self) -> None:
        """Continue from the newest checkpoint if there is one."""
        saved = self.checkpoints.load_newest() if self.checkpoints else None
        if saved is not None:
            self.load_state_dict(saved)
            logger.info("training: resumes from step %d of %d", self.step, self.total_steps)
        self.process_changes.warn_of_change_at(self.step)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all ranks as a tree of dicts, lists, tensors and JSON values.

        The state is not divided by ranks, so any number of processes can continue from it. This is a collective: every
        rank must call it at the same step.
        """
        return {
            "step": self.step,
            "tokens": self.tokens,
            "rollbacks": self.rollbacks,
            "planned_steps": None if self.pace is not None else self.total_steps,
            "carried": None if self.carried is None else self.process_group.gather_rows(self.carried),
            "best_perplexity": self.best.perplexity,
            "best_weights": self.best.weights,
            "random": random_states(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "regularizers": {
                "averaging": None if self.averaging is None else self.averaging.state_dict(),
                "early_stopping": self.early_stopping.state_dict(),
            },
            "process_changes": self.process_changes.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the whole state, including the states of the global random generators."""
        self.step, self.tokens, self.rollbacks = state["step"], state["tokens"], state["rollbacks"]
        self.best.perplexity, self.best.weights = state["best_perplexity"], state["best_weights"]
        own_rows = slice(self.process_group.rank, None, self.process_group.size)  # Select the same rows as Batch.share.
        carried, device = state["carried"], self.model.head.weight.device
        self.carried = None if carried is None else carried[own_rows].to(device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        if (planned := state.get("planned_steps")) is not None:
            self.pace = None
            if planned != self.total_steps:
                self.set_length(planned)
        # The loaded number of steps may be older than the second plan.
        self.schedule.factor.total_steps = self.total_steps
        if self.averaging is not None:
            self.averaging.load_state_dict(state["regularizers"]["averaging"])
        self.early_stopping.load_state_dict(state["regularizers"]["early_stopping"])
        set_random_states(state["random"])
        # Checkpoints of older versions lack this entry, because their runs never changed the number of processes.
        self.process_changes.load(state.get("process_changes", ()), self.step)
