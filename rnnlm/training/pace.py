"""The length of a training run that is limited to a number of minutes.

The length has upper bounds. It is planned again when the speed of the first steps is known.
"""

from dataclasses import dataclass

from rnnlm.models.parameter_count import ParameterCount, count_parameters
from rnnlm.training.job import Job

MOST_EPOCHS = 40
# The weight of a layer's parameter among the memorable parameters, which determine the dropout. It is below 1, because
# all tokens share the parameter, unlike those of the embedding.
LAYERS_SHARE = 0.25
# The largest argument of dropout_for() in time_budget.py. For a larger argument, the dropout would exceed 0.5.
MOST_READINGS = 208
# The fraction of the minutes that is spent on training steps; the rest is for validation and checkpoints.
TRAINING_SHARE = 0.95
# The number of steps is planned again after this fraction of the time for all steps. An earlier estimate would be too
# noisy.
TIMED_SHARE = 0.1
FEWEST_STEPS = 8
# If the second plan differs by less than this fraction, the first one is kept, so that repeated runs on the same
# machine end with the same bits.
KEPT_WITHIN = 0.05


def memorable_parameters(count: ParameterCount) -> float:
    """Return the effective number of a network's parameters that can memorize the text."""
    return count.embedding + LAYERS_SHARE * (count.total - count.embedding)


def most_epochs(count: ParameterCount, text_tokens: int) -> float:
    """Return the number of epochs after which further training would only overfit."""
    return min(MOST_EPOCHS, MOST_READINGS * text_tokens / memorable_parameters(count))


@dataclass
class Pace:
    """A timer of the first training steps, which then plans the number of steps again."""

    seconds: float  # The seconds that all steps may take, without validations and checkpoints.
    planned_steps: int
    most_steps: int  # The largest number of steps. With more steps, the network would only overfit.
    last: tuple[int, int] | None = None  # The step and the number of recorded shapes at the last call of plan().
    timed_steps: int = 0
    timed_seconds: float = 0.0

    def plan(self, step: int, recorded_shapes: int, seconds: float) -> int:
        """Return the total number of steps as soon as enough steps were timed. Until then, return 0.

        `seconds` is the time of the steps since the last call. The first interval is ignored, because libraries are
        initialized in it. An interval in which a GPU recorded a new batch shape is ignored, too.
        """
        before, self.last = self.last, (step, recorded_shapes)
        if before is not None and before[1] == recorded_shapes:
            self.timed_steps += step - before[0]
            self.timed_seconds += seconds
        if self.timed_seconds < TIMED_SHARE * self.seconds or self.timed_steps < FEWEST_STEPS:
            return 0
        steps = max(step, min(self.most_steps, round(self.seconds * self.timed_steps / self.timed_seconds)))
        return self.planned_steps if abs(steps / self.planned_steps - 1) < KEPT_WITHIN else steps


def pace_of(job: Job, planned_steps: int, steps_per_epoch: int) -> Pace | None:
    """Return a Pace if the length of the training run was chosen for a number of minutes, otherwise None."""
    training = job.training
    if training.minutes is None or training.maximum_tokens is None or job.start is not None:
        return None
    count = count_parameters(job.model, job.dataset.vocabulary_size)
    most_steps = int(most_epochs(count, job.dataset.predicted_tokens["train"]) * steps_per_epoch)
    return Pace(TRAINING_SHARE * 60 * training.minutes, planned_steps, max(planned_steps, most_steps))
