"""The results of `rnnlm probe`: values for the compared networks, and the files in which they are stored."""

from abc import abstractmethod
from pathlib import Path
from statistics import mean
from typing import Any

from rnnlm.config import Nonlinearity, RecurrentInitialization
from rnnlm.storage.records import Record, StageRecord
from rnnlm.tracking.comparison_runs import MetricSeries

# The gradient norms of each layer by distance in time steps back from the loss.
LayerNorms = tuple[tuple[float, ...], ...]
LEARNED = 0.99  # The smallest accuracy at which a task counts as learned.


class GradientFlowRecord(StageRecord):
    """Gradient norms by layer, from the bottom up, and by time steps back from the loss. See gradients.py."""

    norms: tuple[tuple[float, ...], ...]
    rows: int
    picture: Path


class RightByPosition(Record):
    """Accuracies for each position p = 0, 1, … of the predicted token, over the rows that have this position.

    `right` is the fraction of rows whose most probable token at p is correct, given all tokens before it. `exact` is
    the fraction of rows that are correct at every position from given_tokens to p, or None for positions before
    given_tokens. In the same rows, the greedy continuation from given_tokens is correct up to p, because the model then
    reads the same tokens.
    """

    rows: tuple[int, ...]
    right: tuple[float, ...]
    exact: tuple[float | None, ...]
    given_tokens: int


class PositionsRecord(RightByPosition, StageRecord):
    longest_trained: int  # The length of the training split's longest row in tokens, without <eos>.
    picture: Path


class GradientCurve(Record):
    """The gradient norms of a network by distance, as computed by gradient_norms().

    `start` describes the initial recurrent matrix, for example "identity × 1.2".
    """

    nonlinearity: Nonlinearity
    start: str
    trained_steps: int
    norms: LayerNorms

    @property
    def relative(self) -> tuple[float, ...]:
        """The norms of the top layer, each divided by the norm at distance 0 unless that is zero."""
        norms = self.norms[-1]
        return tuple(norm / (norms[0] or 1.0) for norm in norms)


class EchoScore(Record):
    """The result of the echo task for one network.

    `accuracy` is the fraction of rows whose symbol was predicted at the cue. Guessing gives 1 / symbols.
    """

    kind: str = "elman"
    nonlinearity: Nonlinearity | None = None  # The nonlinearity and the initialization of an Elman network.
    initialization: RecurrentInitialization | None = None
    distance: int
    accuracy: float
    final_loss: float  # The loss at the cue in nats, averaged over the last tenth of the training steps.

    @property
    def network(self) -> str:
        """The name of the network: its kind, or the settings of an Elman network."""
        return f"{self.nonlinearity}, {self.initialization}" if self.nonlinearity else self.kind


class AbilityScore(Record):
    """The result of one network on one task. `network` is the name of a model kind, or elman-diagonal.

    `accuracies` are the fractions of correct answers in the second half of each row, one for each row length.
    `chances` are the accuracies of always giving the most frequent answer.
    """

    network: str
    task: str
    seed: int
    hidden_size: int
    parameters: int
    steps: int  # The number of optimizer steps until the task was solved, or the maximum number if it was not solved.
    lengths: tuple[int, ...]
    accuracies: tuple[float, ...]
    chances: tuple[float, ...]


class AbilityCell(Record):
    """The results of one network on one task for one length of rows, as means over seeds."""

    accuracy: float
    chance: float
    learned: int  # The number of seeds whose accuracy is at least LEARNED.
    seeds: int


class ProbeComparison(StageRecord):
    """A comparison of networks, stored in home.probes as a plot and a JSON file with settings and results."""

    key: str  # A digest of all inputs and settings of the comparison. It changes if any of them changes.
    settings: dict[str, Any]
    picture: Path

    @property
    def figures(self) -> Path:
        return self.picture.with_suffix(".json")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are logged to MLflow for this comparison."""
        return self.figures, self.picture

    @property
    @abstractmethod
    def series(self) -> MetricSeries:
        """The metrics that are logged to MLflow for this comparison."""


class GradientComparison(ProbeComparison):
    curves: tuple[GradientCurve, ...]

    @property
    def series(self) -> MetricSeries:
        """The relative gradient norm by time steps back from the loss, for each network."""
        return {f"relative_norm/{metric_name(curve)}": list(enumerate(curve.relative)) for curve in self.curves}


class EchoComparison(ProbeComparison):
    scores: tuple[EchoScore, ...]

    @property
    def series(self) -> MetricSeries:
        """The accuracy at the cue by time steps back to the symbol, for each network."""
        series: MetricSeries = {}
        for score in self.scores:
            name = f"echo_accuracy/{score.network.replace(', ', '_')}"
            series.setdefault(name, []).append((score.distance, score.accuracy))
        return series


class AbilityComparison(ProbeComparison):
    scores: tuple[AbilityScore, ...]

    @property
    def table(self) -> Path:
        return self.picture.with_suffix(".parquet")

    @property
    def files(self) -> tuple[Path, ...]:
        return *super().files, self.table

    @property
    def networks(self) -> list[str]:
        return list(dict.fromkeys(score.network for score in self.scores))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(score.task for score in self.scores))

    @property
    def shown_lengths(self) -> list[int]:
        """The lengths of rows in the table and the plot: the shortest and the longest one."""
        lengths = self.scores[0].lengths
        return sorted({min(lengths), max(lengths)})

    def cell(self, network: str, task: str, length: int) -> AbilityCell:
        """Return the means over all seeds for one network, task and length."""
        scores = [score for score in self.scores if (score.network, score.task) == (network, task)]
        place = scores[0].lengths.index(length)
        accuracies = [score.accuracies[place] for score in scores]
        return AbilityCell(
            accuracy=mean(accuracies),
            chance=mean(score.chances[place] for score in scores),
            learned=sum(accuracy >= LEARNED for accuracy in accuracies),
            seeds=len(scores),
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the Parquet file, one for each network, task, seed and length."""
        return [
            score.model_dump(exclude={"lengths", "accuracies", "chances"})
            | {"length": length, "accuracy": accuracy, "chance": chance}
            for score in self.scores
            for length, accuracy, chance in zip(score.lengths, score.accuracies, score.chances, strict=True)
        ]

    @property
    def series(self) -> MetricSeries:
        """The mean accuracy over seeds by the length of the rows, for each network and task."""
        return {
            f"ability/{task}/{network}": [
                (length, self.cell(network, task, length).accuracy) for length in self.scores[0].lengths
            ]
            for network in self.networks
            for task in self.tasks
        }


def metric_name(curve: GradientCurve) -> str:
    """Return a metric name that MLflow accepts, such as relu_identity-x1.2_after-100-steps."""
    after = f"_after-{curve.trained_steps}-steps" if curve.trained_steps else ""
    # The plus sign in a factor such as 1e+06 is removed, because MLflow does not accept it.
    start = curve.start.replace(" × ", "-x").replace("+", "")
    return f"{curve.nonlinearity}_{start}{after}"
