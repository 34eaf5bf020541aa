"""Results of `rnnlm probe`: figures of compared networks, and the files they are stored in."""

from abc import abstractmethod
from pathlib import Path
from statistics import mean
from typing import Any

from rnnlm.config import Nonlinearity, RecurrentInitialization
from rnnlm.storage.records import Record, StageRecord
from rnnlm.tracking.comparison_runs import MetricSeries

LayerNorms = tuple[tuple[float, ...], ...]  # layer → distance back → norm
LEARNED = 0.99  # share of right answers


class GradientFlowRecord(StageRecord):
    """Gradient norms by layer (bottom first) and by steps back from the loss; see gradients.py."""

    norms: tuple[tuple[float, ...], ...]
    rows: int
    picture: Path


class RightByPosition(Record):
    """Figures for each position p = 0, 1, … of the predicted token, over rows of at least that length.

    right: share of rows whose most likely token at p is correct, given all tokens before it.
    exact: share of rows that are correct at every position from given_tokens to p; None before given_tokens. Greedy
    continuations from given_tokens are exact in the same rows: while they are correct, the model reads the same tokens.
    """

    rows: tuple[int, ...]
    right: tuple[float, ...]
    exact: tuple[float | None, ...]
    given_tokens: int


class PositionsRecord(RightByPosition, StageRecord):
    longest_trained: int  # tokens of the training split's longest row, without <eos>
    picture: Path


class GradientCurve(Record):
    """Gradient norms of a network; see gradient_norms. start: initial recurrent matrix, such as "identity × 1.2"."""

    nonlinearity: Nonlinearity
    start: str
    trained_steps: int
    norms: LayerNorms

    @property
    def relative(self) -> tuple[float, ...]:
        """Norms of the top layer relative to that at distance 0; unscaled if that is zero."""
        norms = self.norms[-1]
        return tuple(norm / (norms[0] or 1.0) for norm in norms)


class EchoScore(Record):
    """The result of the echo task.

    accuracy: share of rows whose symbol was predicted at the cue; chance is 1 / symbols.
    """

    nonlinearity: Nonlinearity
    initialization: RecurrentInitialization
    distance: int
    accuracy: float
    final_loss: float  # nats at the cue, mean over the last tenth of the steps


class AbilityScore(Record):
    """One network on one task. accuracies: share of right answers in the second half of rows of each length.

    chances: the share that the most frequent answer has there. network: a kind of model, or elman-diagonal.
    """

    network: str
    task: str
    seed: int
    hidden_size: int
    parameters: int
    steps: int  # optimizer steps until the task was solved, or all
    lengths: tuple[int, ...]
    accuracies: tuple[float, ...]
    chances: tuple[float, ...]


class AbilityCell(Record):
    """All networks of a kind on one task and length. accuracy, chance: means over seeds."""

    accuracy: float
    chance: float
    learned: int  # seeds whose accuracy is at least LEARNED
    seeds: int


class ProbeComparison(StageRecord):
    """Compared networks. Settings and figures are JSON in home.probes, beside a plot."""

    key: str  # digest of everything it depends on
    settings: dict[str, Any]
    picture: Path

    @property
    def figures(self) -> Path:
        return self.picture.with_suffix(".json")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are logged to MLflow."""
        return self.figures, self.picture

    @property
    @abstractmethod
    def series(self) -> MetricSeries:
        """MLflow's metrics."""


class GradientComparison(ProbeComparison):
    curves: tuple[GradientCurve, ...]

    @property
    def series(self) -> MetricSeries:
        """For each network the relative gradient norm by steps back from the loss."""
        return {f"relative_norm/{metric_name(curve)}": list(enumerate(curve.relative)) for curve in self.curves}


class EchoComparison(ProbeComparison):
    scores: tuple[EchoScore, ...]

    @property
    def series(self) -> MetricSeries:
        """For each network the accuracy at the cue by steps back to the symbol."""
        series: MetricSeries = {}
        for score in self.scores:
            name = f"echo_accuracy/{score.nonlinearity}_{score.initialization}"
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
        """Those of the table and the picture: the shortest and the longest."""
        lengths = self.scores[0].lengths
        return sorted({min(lengths), max(lengths)})

    def cell(self, network: str, task: str, length: int) -> AbilityCell:
        """Return the means over all seeds."""
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
        """One for each network, task, seed and length."""
        return [
            score.model_dump(exclude={"lengths", "accuracies", "chances"})
            | {"length": length, "accuracy": accuracy, "chance": chance}
            for score in self.scores
            for length, accuracy, chance in zip(score.lengths, score.accuracies, score.chances, strict=True)
        ]

    @property
    def series(self) -> MetricSeries:
        """For each network and task the mean accuracy over seeds by the length of the rows."""
        return {
            f"ability/{task}/{network}": [
                (length, self.cell(network, task, length).accuracy) for length in self.scores[0].lengths
            ]
            for network in self.networks
            for task in self.tasks
        }


def metric_name(curve: GradientCurve) -> str:
    """Return a name such as relu_identity-x1.2_after-100-steps, with characters that MLflow accepts."""
    after = f"_after-{curve.trained_steps}-steps" if curve.trained_steps else ""
    start = curve.start.replace(" × ", "-x").replace("+", "")  # a factor may be 1e+06
    return f"{curve.nonlinearity}_{start}{after}"
