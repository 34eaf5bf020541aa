"""Terminal output that explains how a model predicts a text, with one step per line."""

from typing import Any

from rnnlm.display.text_layout import LINE_WIDTH, columns, shorten
from rnnlm.evaluation.explanation import Explanation, ExplanationStep

LONGEST_TOKEN = 12  # The largest number of characters that are shown of a token.
UNKNOWN_MARK = "*"


def explanation_text(explanation: Explanation) -> str:
    """Return the explanation as a table that fits a terminal, with the sums of the losses below."""
    loss = explanation.loss
    if not explanation.steps:
        return "nothing to predict in this text"
    rows = [step_row(step) for step in explanation.steps]
    width = LINE_WIDTH - len(columns(rows)[0]) - len("  ")
    for row, step in zip(rows, explanation.steps, strict=True):
        row["best guesses"] = best_guesses(step, width)
    nats = f"{loss.nll_nats_per_token:.3f} nats per token"
    lines = [
        *columns(rows),
        "",
        f"{loss.tokens:,} tokens, {nats}: perplexity {loss.perplexity:.2f}; {loss.bits_per_byte:.3f} bits per byte",
    ]
    unknown = [step for step in explanation.steps if step.is_unknown]
    if unknown:
        bits = sum(step.spelling_bits for step in unknown)
        what = "it costs" if len(unknown) == 1 else "them costs"
        lines.append(f"{UNKNOWN_MARK} not in the vocabulary, read as <unk>; to spell {what} {bits:,.0f} bits more")
    return "\n".join(lines)


def step_row(step: ExplanationStep) -> dict[str, Any]:
    return {
        "reads": f"{shorten(step.input_text, LONGEST_TOKEN)} {step.input_id}",
        "→ predicts": f"{shorten(step.target_text, LONGEST_TOKEN)} {step.target_id}" + UNKNOWN_MARK * step.is_unknown,
        "p": f"{step.probability:.4f}" if step.probability >= 0.0001 else f"{step.probability:.0e}",
        "loss": f"{step.nll_nats:.2f}",
        "rank": f"{step.rank:,}",
    }


def best_guesses(step: ExplanationStep, width: int) -> str:
    """Return the most probable tokens and their probabilities in percent, as many as fit into `width` characters."""
    text = ""
    for token, probability in step.alternatives:
        guess = f"{shorten(token, LONGEST_TOKEN)} {100 * probability:.0f}%"
        longer = f"{text}, {guess}" if text else guess
        if len(longer) > width:
            break
        text = longer
    return text


def explanation_value(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation in the form that --json prints. States are rounded to four decimals."""
    loss = explanation.loss
    return {
        "perplexity": loss.perplexity if loss.tokens else None,
        "bits_per_byte": loss.bits_per_byte if loss.byte_count else None,
        "nll_nats_per_token": loss.nll_nats_per_token if loss.tokens else None,
        "tokens": loss.tokens,
        "unknown_tokens": loss.unknown_tokens,
        "steps": [
            {
                **{name: value for name, value in vars(step).items() if name != "alternatives"},
                "probability": step.probability,
                "alternatives": [{"text": text, "probability": share} for text, share in step.alternatives],
                "state": [[round(float(unit), 4) for unit in layer] for layer in state],
            }
            for step, state in zip(explanation.steps, explanation.states, strict=True)
        ],
    }
