"""The length of a training for minutes: what bounds it, and a second plan when real steps were timed."""

from dataclasses import dataclass

from rnnlm.models.parameter_count import ParameterCount, count_parameters
from rnnlm.training.job import Job

MOST_EPOCHS = 40
LAYERS_SHARE = 0.25  # of a layer's weight, shared by all tokens, in what dropout is for; a token's own row counts 1
MOST_READINGS = 208  # more would need more dropout than 0.5; see time_budget.py
TRAINING_SHARE = 0.95  # of the minutes; the rest is for validation and checkpoints
TIMED_SHARE = 0.1  # of the time of all steps, after which their number is planned again; less would be chance
FEWEST_STEPS = 8
KEPT_WITHIN = 0.05  # a plan that is off by less is kept, so that the same machine gives the same bits


def memorable_parameters(count: ParameterCount) -> float:
    """Return the number of parameters that may learn the text by heart."""
    return count.embedding + LAYERS_SHARE * (count.total - count.embedding)


def most_epochs(count: ParameterCount, text_tokens: int) -> float:
    """Return how often a text may be read before reading it again would only overfit."""
    return min(MOST_EPOCHS, MOST_READINGS * text_tokens / memorable_parameters(count))


@dataclass
class Pace:
    """Times the first steps of a training, and plans their number once more."""

    seconds: float  # for all steps, without validations and checkpoints
    planned_steps: int
    most_steps: int  # more would only overfit
    last: tuple[int, int] | None = None  # step and recorded shapes of the last call
    timed_steps: int = 0
    timed_seconds: float = 0.0

    def plan(self, step: int, recorded_shapes: int, seconds: float) -> int:
        """Return the number of all steps once enough were timed, else 0.

        seconds: of the steps from the last call to this one. Those of the first interval do not count, in which
        libraries prepare themselves, nor those in which a GPU recorded a new shape of batches.
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
    """Return the pace of a training whose length was chosen for its minutes; None: it is given otherwise."""
    training = job.training
    if training.minutes is None or training.maximum_tokens is None or job.start is not None:
        return None
    count = count_parameters(job.model, job.dataset.vocabulary_size)
    most_steps = int(most_epochs(count, job.dataset.predicted_tokens["train"]) * steps_per_epoch)
    return Pace(TRAINING_SHARE * 60 * training.minutes, planned_steps, max(planned_steps, most_steps))
