"""Plots of a comparison. Each model has the same colour in all panels."""

from pathlib import Path
from typing import Any

from rnnlm.display.plots import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    OLIVE,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    new_figure,
    set_legend,
    set_plain_ticks,
    set_titles,
)
from rnnlm.extensions.comparison.comparison_config import NAMES
from rnnlm.extensions.comparison.model_comparison import ModelComparison
from rnnlm.extensions.comparison.model_result import POSITIONS

KIND_COLOURS: dict[str, str] = {
    "elman": RED,
    "feed-forward": PINK,
    "gru": ORANGE,
    "ind-rnn": OLIVE,
    "lstm": GREEN,
    "min-gru": BROWN,
    "min-lstm": PURPLE,
    "xlstm": INK,
    "transformer": BLUE,
    "kneser-ney": GREY,
}
OWN_KIND_COLOUR = "#2a9d8f"  # The colour of custom layers, which have no colour above.
SMALLEST_GRADIENT = 1e-6  # The lower end of the axis of relative gradient norms.


def draw_comparison(comparison: ModelComparison, picture: Path) -> None:
    """Write the plots of a comparison to a PNG file with six panels."""
    figure, panels = new_figure((13, 11), rows=3, columns=2)
    scores, parameters, tokens, seconds, positions, gradients = panels
    draw_scores(scores, comparison)
    draw_parameters(parameters, comparison)
    draw_curves(tokens, comparison, by_time=False)
    draw_curves(seconds, comparison, by_time=True)
    draw_positions(positions, comparison)
    draw_gradients(gradients, comparison)
    set_legend(figure, positions)
    figure.savefig(picture, format="png")


def colour_of(model: str) -> str:
    return KIND_COLOURS.get(model, OWN_KIND_COLOUR)


def draw_scores(axes: Any, comparison: ModelComparison) -> None:
    """Draw each model's test perplexity: one point per seed, and the mean with its confidence interval."""
    # The order is reversed, because matplotlib draws the first bar at the bottom.
    results = comparison.models[::-1]
    for place, result in enumerate(results):
        colour = colour_of(result.model)
        axes.errorbar(
            result.test_perplexity, place, xerr=result.perplexity_margin, color=colour, marker="o", capsize=4, lw=2
        )
        values = [run.test.perplexity for run in result.runs]
        axes.plot(values, [place] * len(values), "|", color=colour, markersize=14)
    axes.set_yticks(range(len(results)), [NAMES.get(result.model, result.model) for result in results])
    axes.grid(axis="x", color="#e6e6e6")
    set_titles(axes, "Test perplexity", "test perplexity: mean over seeds, with its 95 % interval")


def draw_parameters(axes: Any, comparison: ModelComparison) -> None:
    """Draw test perplexity against the number of parameters. Hollow points do not count the embedding's parameters."""
    for result in comparison.models:
        colour = colour_of(result.model)
        axes.plot(result.parameters, result.test_perplexity, "o", color=colour)
        if result.embedding_parameters is not None:
            layers = result.parameters - result.embedding_parameters
            axes.plot(layers, result.test_perplexity, "o", markerfacecolor="none", color=colour)
    set_thousands(axes.xaxis)
    set_titles(axes, "Test perplexity by size", "parameters; hollow: without the embedding")
    axes.set_ylabel("test perplexity")


def draw_curves(axes: Any, comparison: ModelComparison, *, by_time: bool) -> None:
    """Draw each run's sampled validation perplexity during training, against trained tokens or seconds.

    The seconds are computed from the tokens and the measured training speed.
    """
    for result in comparison.models:
        colour = colour_of(result.model)
        if result.costs is None:
            axes.axhline(result.runs[0].validation.perplexity, color=colour, linestyle="--")
            continue
        speed = result.costs.tokens_per_second if by_time else 1
        for run in result.runs:
            xs, values = [tokens / speed for tokens, _ in run.curve], [value for _, value in run.curve]
            axes.plot(xs, values, ".-", color=colour, linewidth=1.3)
    axes.set_yscale("log")
    set_plain_ticks(axes.yaxis, (1, 1.5, 2, 3, 5, 7), "{x:g}")
    set_thousands(axes.xaxis)
    if by_time:
        set_titles(axes, "Validation perplexity by time", "seconds of training at the measured speed")
    else:
        set_titles(axes, "Validation perplexity by tokens", "trained tokens")
    axes.set_ylabel("sampled validation perplexity")


def set_thousands(axis: Any) -> None:
    """Format the axis's tick labels with k for thousands and M for millions, such as 60k and 5M."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter(sep=""))


def draw_positions(axes: Any, comparison: ModelComparison) -> None:
    for result in comparison.models:
        losses = [float("nan") if loss is None else loss for loss in result.loss_by_position]
        axes.plot(losses, ".-", color=colour_of(result.model), label=NAMES.get(result.model, result.model))
    axes.set_xticks(range(len(POSITIONS)), [str(position) for position in POSITIONS])
    set_titles(axes, "Loss by position", "tokens of the sentence before it, at least", "test loss, nats per token")


def draw_gradients(axes: Any, comparison: ModelComparison) -> None:
    for result in comparison.models:
        axes.plot([max(norm, SMALLEST_GRADIENT) for norm in result.input_gradients], color=colour_of(result.model))
    axes.set_yscale("log")
    set_titles(axes, "How far back gradients reach", "tokens back")
    axes.set_ylabel("‖∂ loss / ∂ embedding‖, relative")
