"""Plot the loss by position in the sentence, and by the token's frequency in the training split."""

from pathlib import Path
from typing import Any

import numpy as np

from rnnlm.display.plots import BLUE, INK, PALE, RED, new_figure, set_plain_ticks, set_titles
from rnnlm.display.text_layout import TableRows

MINIMUM_BUCKET_TOKENS = 30


def draw_loss_by_position(rows: TableRows, mean: float, picture: Path) -> None:
    """Plot the mean loss of each bucket of positions, with ± two standard errors.

    Buckets with few tokens, at the end of very long sentences, are left out, because their means are mostly noise.
    """
    rows = [row for row in rows if row["tokens"] >= MINIMUM_BUCKET_TOKENS] or rows
    figure, (axes,) = new_figure((8, 3.7))
    set_titles(
        axes, "Loss by position in the sentence", "position of the token in its sentence", "loss, nats per token"
    )
    edges = [1 + row["first_position"] for row in rows] + [2 + rows[-1]["last_position"]]
    losses, errors = losses_and_errors(rows)
    axes.stairs(
        losses + errors, edges, baseline=losses - errors, fill=True, color=PALE, alpha=0.5, label="± 2 standard errors"
    )
    axes.stairs(losses, edges, baseline=None, color=BLUE, linewidth=1.8, label="mean of the bucket")
    draw_mean(axes, mean)
    axes.set_xscale("log")
    set_plain_ticks(axes.xaxis, (1, 2, 5), "{x:,.0f}")
    axes.set_xlim(1, edges[-1])
    axes.legend(frameon=False)
    figure.savefig(picture)


def draw_loss_by_frequency(rows: TableRows, mean: float, picture: Path) -> None:
    """Plot the loss for each bucket of token frequencies.

    Below, plot the bucket's fractions of all tokens and of the total loss.
    """
    figure, (loss, shares) = new_figure((8, 4.4), rows=2, sharex=True, height_ratios=(2, 1))
    set_titles(loss, "Loss by how often training predicts the token", y="loss, nats per token")
    places = range(len(rows))
    losses, errors = losses_and_errors(rows)
    loss.errorbar(places, losses, yerr=errors, color=BLUE, marker="o", markersize=4, linewidth=1.6, capsize=2)
    for place, height in enumerate(losses):
        loss.annotate(
            f"{height:.1f}",
            (place, height),
            xytext=(6, 6),
            textcoords="offset points",
            color=INK,
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    draw_mean(loss, mean)
    loss.set_ylim(bottom=0, top=1.12 * (losses + errors).max())
    loss.legend(frameon=False)

    width = 0.38
    for shift, column, colour, label in (
        (-width / 2, "share_of_tokens", PALE, "of the tokens"),
        (width / 2, "share_of_loss", BLUE, "of the summed loss"),
    ):
        heights = [100 * row[column] for row in rows]
        shares.bar([place + shift for place in places], heights, width, color=colour, label=label)
    shares.set_ylabel("share, %")
    shares.set_xticks(list(places), [bucket_name(row["first_count"], row["last_count"]) for row in rows])
    shares.set_xlabel("times the training split predicts the token")
    shares.legend(frameon=False, ncols=2)
    figure.savefig(picture)


def losses_and_errors(rows: TableRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean loss of each bucket in nats per token, and twice its standard error, (buckets,) each."""
    losses, errors = ([row[column] for row in rows] for column in ("nll_nats_per_token", "standard_error"))
    return np.array(losses), 2 * np.array(errors)


def draw_mean(axes: Any, mean: float) -> None:
    axes.axhline(mean, color=RED, linewidth=1.0, linestyle="--", label=f"all tokens: {mean:.2f}")


def bucket_name(first: int, last: int) -> str:
    """Return the name of a bucket, such as `never`, `1–3`, `64–255` or `4k–16k`."""
    if first == 0:
        return "never"
    if last < 1 << 10:
        return f"{first}–{last}"
    return f"{binary_units(first)}–{binary_units(last + 1)}"


def binary_units(count: int) -> str:
    for size, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if count >= size:
            return f"{count // size}{letter}"
    return str(count)
