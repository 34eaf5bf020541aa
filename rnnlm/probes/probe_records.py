"""Results of `rnnlm probe`: figures of compared networks, and the files they are stored in."""

from pathlib import Path
from typing import Any

from rnnlm.config import Nonlinearity, RecurrentInitialization
from rnnlm.records import Record, StageRecord

LayerNorms = tuple[tuple[float, ...], ...]  # layer → distance back → norm
MetricSeries = dict[str, list[tuple[int, float]]]  # metric name → (distance, value)


class GradientCurve(Record):
    """norms: see gradient_norms. start: initial recurrent matrix, such as "identity × 1.2"."""

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
    """accuracy: share of rows whose symbol was predicted at the cue; chance is 1 / symbols."""

    nonlinearity: Nonlinearity
    initialization: RecurrentInitialization
    distance: int
    accuracy: float
    final_loss: float  # nats at the cue, mean over the last tenth of the steps


class ProbeComparison(StageRecord):
    """Compared networks. Settings and figures are JSON in home.probes, beside a plot."""

    key: str  # digest of everything it depends on
    settings: dict[str, Any]
    picture: Path

    @property
    def figures(self) -> Path:
        return self.picture.with_suffix(".json")


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


def metric_name(curve: GradientCurve) -> str:
    """Such as relu_identity-x1.2_after-100-steps, with characters that MLflow accepts."""
    after = f"_after-{curve.trained_steps}-steps" if curve.trained_steps else ""
    start = curve.start.replace(" × ", "-x").replace("+", "")  # a factor may be 1e+06
    return f"{curve.nonlinearity}_{start}{after}"
