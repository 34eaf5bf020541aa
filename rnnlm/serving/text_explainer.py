"""Explain a short text step by step, with as much of the state as an answer should hold."""

from collections.abc import Callable

import numpy as np

from rnnlm.evaluation.explanation import explain
from rnnlm.serving.messages import UNITS_SHOWN, Alternative, Explained, ExplainedToken, ExplainRequest
from rnnlm.serving.model_loader import LoadedModel
from rnnlm.serving.text_scorer import sums_of_text

STATE_DECIMALS = 3


def explain_text(loaded: LoadedModel, request: ExplainRequest, check: Callable[[], None] | None = None) -> Explained:
    """check: called before each step; its exceptions are re-raised."""
    explanation = explain(loaded.model, loaded.tokenizer, loaded.cut, request.text, request.alternatives, check)
    _, layers, hidden_size = explanation.states.shape
    units = shown_units(layers, hidden_size)
    states = explanation.states[:, :, units].astype(np.float64).round(STATE_DECIMALS)  # float32 has no short decimals
    return Explained(
        **sums_of_text(loaded, explanation.loss),
        hidden_size=hidden_size,
        units=units,
        steps=[
            ExplainedToken(
                text=step.target_text,
                token_id=step.target_id,
                surprisal_nats=step.nll_nats,
                alternatives=[Alternative(text=text, probability=share) for text, share in step.alternatives],
                start=step.start,
                end=step.end,
                input_text=step.input_text,
                input_id=step.input_id,
                starts_row=step.starts_row,
                rank=step.rank,
                unknown=step.is_unknown,
                spelling_bits=step.spelling_bits,
                state=state.tolist(),
            )
            for step, state in zip(explanation.steps, states, strict=True)
        ],
    )


def shown_units(layers: int, hidden_size: int) -> list[int]:
    """Evenly spread units, the same of each layer."""
    count = min(hidden_size, max(1, UNITS_SHOWN // layers))
    return [int(unit) for unit in np.linspace(0, hidden_size - 1, count).round()]
