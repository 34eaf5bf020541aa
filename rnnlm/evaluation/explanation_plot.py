"""A plot of the hidden states over a text, with a plot of the loss of each step below."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rnnlm.display.plots import BLUE, GREY, INK, RED, new_figure, set_titles
from rnnlm.display.text_layout import visible
from rnnlm.evaluation.explanation import Explanation, ExplanationStep

# The width of a step, and the smallest and largest width of the plot, in inches.
STEP_INCHES, SMALLEST_INCHES, LARGEST_INCHES = 0.3, 6.0, 30.0
# The largest number of steps that are all labelled. With more steps, the labels would overlap.
MOST_LABELS = 100
LONGEST_LABEL = 14  # The largest number of characters in a label.


def draw_explanation(explanation: Explanation, picture: Path) -> None:
    """Write a PNG with a heat map of units and steps, the lowest layer at the bottom, and the loss in nats below.

    The input tokens are shown above the heat map and the targets below the losses, so that the shift by one step is
    visible.
    """
    steps = explanation.steps
    width = min(max(SMALLEST_INCHES, 1.6 + STEP_INCHES * len(steps)), LARGEST_INCHES)
    figure, (heat, loss) = new_figure((width, 5.6), rows=2, sharex=True, height_ratios=(3, 1))
    image = draw_states(heat, explanation)
    figure.colorbar(image, ax=heat, pad=0.01, fraction=0.05, label="state after the token read")
    unknown = [step.is_unknown for step in steps]
    loss.bar(range(len(steps)), [step.nll_nats for step in steps], color=[RED if one else BLUE for one in unknown])
    set_titles(loss, "", "predicts" + (" (red: unknown words)" if any(unknown) else ""), "loss, nats")
    label_steps(loss, [step.target_text for step in steps])
    above = heat.secondary_xaxis("top")
    label_steps(above, [step.input_text for step in steps])
    above.set_xlabel("reads")
    heat.tick_params(axis="x", bottom=False, labelbottom=False)
    for place in row_starts(steps):
        for axes in (heat, loss):
            axes.axvline(place - 0.5, color=INK, linewidth=1)
    figure.savefig(picture, format="png")


def draw_states(axes: Any, explanation: Explanation) -> Any:
    """Draw the heat map, and return its image for the colour bar."""
    _, layers, size = explanation.states.shape
    flat = explanation.states.reshape(len(explanation.states), layers * size).T
    highest = max(float(np.abs(flat).max()), 1e-9)
    image = axes.imshow(
        flat, cmap="RdBu_r", vmin=-highest, vmax=highest, aspect="auto", origin="lower", interpolation="nearest"
    )
    axes.grid(visible=False)
    for layer in range(1, layers):
        axes.axhline(layer * size - 0.5, color=GREY, linewidth=1)
    set_titles(axes, "", y="unit of the state" if layers == 1 else "unit of the state, layer 1 at the bottom")
    return image


def label_steps(axes: Any, texts: list[str]) -> None:
    """Label the steps with their tokens. If there are many steps, only some are labelled."""
    every = -(-len(texts) // MOST_LABELS)
    places = range(0, len(texts), every)
    axes.set_xticks(places, [shortened(texts[place]) for place in places], rotation=90, fontsize=8)


def shortened(text: str) -> str:
    # A dollar is escaped, because matplotlib interprets text between dollars as a formula.
    text = visible(text).replace("$", r"\$")
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def row_starts(steps: tuple[ExplanationStep, ...]) -> list[int]:
    """Return the numbers of the steps, except the first one, before which the state is set to zero."""
    return [place + 1 for place, (_, step) in enumerate(pairwise(steps)) if step.starts_row]
