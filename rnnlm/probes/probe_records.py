"""What `rnnlm probe` hands on: the figures of a comparison of networks, and where they are kept."""

from pathlib import Path
from typing import Any

from rnnlm.config import Nonlinearity, RecurrentInitialization
from rnnlm.records import Record, StageRecord

Flow = tuple[tuple[float, ...], ...]  # layer → distance back → norm
Series = dict[str, list[tuple[int, float]]]  # name → distance and value


class GradientCurve(Record):
    """norms: see gradient_norms. start: the recurrent matrix's initialisation, "identity × 1.2" for a scaled one."""

    nonlinearity: Nonlinearity
    start: str
    trained_steps: int
    norms: Flow

    @property
    def relative(self) -> tuple[float, ...]:
        """The top layer's norms relative to that at distance 0; zeros where that is zero."""
        norms = self.norms[-1]
        return tuple(norm / (norms[0] or 1.0) for norm in norms)


class EchoScore(Record):
    """accuracy: share of rows whose symbol was said at the cue; guessing gives 1 / symbols."""

    nonlinearity: Nonlinearity
    initialization: RecurrentInitialization
    distance: int
    accuracy: float
    final_loss: float  # nats at the cue, mean over the last tenth of the steps


class Comparison(StageRecord):
    """Networks beside each other. Under home.probes lie its settings and figures as JSON, and its picture."""

    key: str  # digest of all it depends on
    settings: dict[str, Any]
    figures: Path
    picture: Path


class GradientComparison(Comparison):
    curves: tuple[GradientCurve, ...]

    @property
    def series(self) -> Series:
        """A line a network: of the gradient's norm, what is left of it by steps back from the loss."""
        return {f"relative_norm/{name_of(curve)}": list(enumerate(curve.relative)) for curve in self.curves}


class EchoComparison(Comparison):
    scores: tuple[EchoScore, ...]

    @property
    def series(self) -> Series:
        """A line a network: the accuracy at the cue by steps back to the symbol."""
        series: Series = {}
        for score in self.scores:
            name = f"echo_accuracy/{score.nonlinearity}_{score.initialization}"
            series.setdefault(name, []).append((score.distance, score.accuracy))
        return series


def name_of(curve: GradientCurve) -> str:
    """Such as relu_identity-x1.2_after-100-steps: letters that MLflow takes in a metric's name."""
    after = f"_after-{curve.trained_steps}-steps" if curve.trained_steps else ""
    start = curve.start.replace(" × ", "-x").replace("+", "")  # a factor may be 1e+06
    return f"{curve.nonlinearity}_{start}{after}"
