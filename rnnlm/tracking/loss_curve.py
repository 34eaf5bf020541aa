"""Plots of a run's loss curve."""

from pathlib import Path
from typing import Any

from rnnlm.display.plots import BLUE, INK, PALE, RED, new_figure, set_titles
from rnnlm.metrics import perplexity
from rnnlm.training.history import read_series


def smoothed(values: list[float]) -> list[float]:
    """Return the exponential moving average of the values with bias correction. The first value is unchanged."""
    import pandas

    average: list[float] = pandas.Series(values, dtype=float).ewm(alpha=0.1).mean().tolist()
    return average


def spans_decades(values: list[float]) -> bool:
    """Return True if the smallest value is below a hundredth of the largest, which needs a logarithmic scale."""
    return bool(values) and 0 < min(values) < max(values) / 100


def plot_loss_curve(history: Path, picture: Path) -> None:
    """Write a PNG with the training and validation loss in nats per token, and with the learning rate below."""
    figure, (loss, rate) = new_figure((8, 5), rows=2, sharex=True, height_ratios=(4, 1))
    draw_losses(loss, history)
    set_titles(loss, "Loss", y="loss, nats per token")

    rate.plot(*read_series(history, "learning_rate"), color=INK, linewidth=1.2)
    rate.set_ylabel("learning rate")
    rate.set_ylim(bottom=0)
    show_trained_tokens(rate)
    figure.savefig(picture, format="png")


def plot_small_loss_curve(history: Path, picture: Path) -> None:
    """Write a PNG of about 20 kB with the losses, without the learning rate."""
    figure, (loss,) = new_figure((6.4, 2.6))
    draw_losses(loss, history, raw=False)
    loss.set_ylabel("nats per token")
    show_trained_tokens(loss)
    figure.savefig(picture, format="png", dpi=100)


def show_trained_tokens(axes: Any) -> None:
    """Label the x axis with texts such as `5M` for 5,000,000 trained tokens."""
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel("trained tokens")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def draw_losses(loss: Any, history: Path, raw: bool = True) -> None:
    """Draw the losses into one panel, with the best validation perplexity. The legend is above the panel.

    The training loss is smoothed and, if `raw` is true, also drawn as measured.
    """
    xs, ys = read_series(history, "train_loss_nats")
    if raw:
        loss.plot(xs, ys, color=PALE, linewidth=0.8, alpha=0.7)
    loss.plot(xs, smoothed(ys), color=BLUE, linewidth=1.8, label="training, smoothed")
    xs, ys = read_series(history, "validation_nll_nats_per_token")
    label = f"validation sample, best perplexity {perplexity(min(ys)):.4g}" if ys else "validation sample"
    loss.plot(xs, ys, color=RED, marker="o", markersize=4, linewidth=1.6, label=label)
    if spans_decades(read_series(history, "train_loss_nats")[1] + ys):
        loss.set_yscale("log")
    # The legend is above the panel, where no curve crosses it.
    loss.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0, ncols=2)
