"""Score a text token by token with the model's most probable alternatives, or explain a short text step by step."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from rnnlm.evaluation.document_losses import DocumentLoss, document_losses
from rnnlm.evaluation.explanation import explain
from rnnlm.evaluation.text_tokens import scored_rows, spelling, token_positions
from rnnlm.extensions.serving.messages import (
    UNITS_SHOWN,
    Alternative,
    Explained,
    ExplainedToken,
    ExplainRequest,
    Scored,
    ScoredTexts,
    ScoredToken,
    ScoreRequest,
)
from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.extensions.serving.request_batcher import BusyError
from rnnlm.losses.loss import CPU_ROWS
from rnnlm.metrics import finite_or_none
from rnnlm.models.ensemble import Ensemble
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import histories
from rnnlm.sequences.batches import EVALUATION_WINDOW
from rnnlm.sequences.shift import shifted

STATE_DECIMALS = 3
TopTokens = list[tuple[int, float]]  # Pairs of token id and probability, the most probable first.


def interruptible(model: LanguageModel, check: Callable[[], None]) -> LanguageModel:
    """Return a copy of the model that calls `check` before each window that a network reads.

    The copy has the same weights. An exception that `check` raises ends the computation.
    """
    checked = copy.copy(model)
    if isinstance(checked, Ensemble):
        # average() is not called, because it would change modules that the copy shares with the original model.
        checked.averaged = [interruptible(network, check) for network in model.networks]
        return checked

    def hidden(token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check()
        return model.hidden(token_ids, state, mask)

    checked.hidden = hidden  # type: ignore[method-assign]
    return checked


def score_request(loaded: LoadedModel, request: ScoreRequest, check: Callable[[], None]) -> Scored | ScoredTexts:
    """Score the text, or each text of the list.

    `check` is called between the windows of a text. Its exceptions are raised again; the index of the text is added to
    a BusyError.
    """
    if isinstance(request.text, str):
        return score_text(loaded, request.text, request.alternatives, check)
    # Texts are scored one at a time, because in a batch the rounding of a text's score would depend on the other texts.
    scores = []
    for index, text in enumerate(request.text):
        try:
            scores.append(score_text(loaded, text, request.alternatives, check))
        except BusyError as error:
            raise BusyError(f"text {index} of {len(request.text)}: {error}") from error
        except Exception as error:
            # The index appears in the log, but not in the response to the client.
            error.add_note(f"text {index} of {len(request.text)}")
            raise
    return ScoredTexts(texts=scores)


def score_text(
    loaded: LoadedModel, text: str, alternatives: int = 0, check: Callable[[], None] | None = None
) -> Scored:
    """Score a text as document_losses() does, and add the position and the alternatives of each token.

    `check` is called between the windows of the text. Its exceptions are raised again.
    """
    if check is not None:
        loaded = replace(loaded, model=interruptible(loaded.model, check))
    predictions = list(predicted_tokens(loaded, text, alternatives)) if alternatives else None
    known_nll = None if predictions is None else (one.nll_nats for one in predictions)
    (loss,) = document_losses(loaded.model, loaded.tokenizer, [text], loaded.cut, known_nll=known_nll)
    expected: Iterable[TopTokens] = repeat([]) if predictions is None else (one.top for one in predictions)
    tokens = [
        ScoredToken(
            text=text[start:end],
            token_id=token_id,
            surprisal_nats=nll,
            start=start,
            end=end,
            alternatives=named_alternatives(loaded, top),
        )
        for (start, end), token_id, nll, top in zip(
            token_positions(loaded.tokenizer, loaded.cut, text),
            loss.token_ids.tolist(),
            loss.nll_nats.tolist(),
            expected,
            strict=False,
        )
    ]
    return Scored(**sums_of_text(loaded, loss), tokens=tokens)


def sums_of_text(loaded: LoadedModel, loss: DocumentLoss) -> dict[str, Any]:
    """Return the fields of an answer that refer to the whole text."""
    return {
        "model": loaded.label,
        "log_probability_nats": -loss.summed_nll_nats,
        "perplexity": finite_or_none(loss.perplexity),
        "bits_per_byte": finite_or_none(loss.bits_per_byte),
        "byte_count": loss.byte_count,
        "unknown_tokens": loss.unknown_tokens,
    }


def named_alternatives(loaded: LoadedModel, top: TopTokens) -> list[Alternative]:
    return [Alternative(text=spelling(loaded.tokenizer, token), probability=share) for token, share in top]


class Prediction(NamedTuple):
    """The model's prediction for one token of the text."""

    nll_nats: float  # The loss of the text's token.
    top: TopTokens


@torch.inference_mode()
def predicted_tokens(loaded: LoadedModel, text: str, count: int) -> Iterator[Prediction]:
    """Yield the loss of each scored token and the `count` most probable tokens at its position."""
    for row in scored_rows(loaded.tokenizer, loaded.cut, text):
        target_ids = iter(shifted(row)[1].split(1))
        for logits in row_logits(loaded, row):
            ids = torch.cat(list(islice(target_ids, len(logits))))
            nll_nats = cross_entropy(logits.float(), ids, reduction="none")
            shares, token_ids = logits.softmax(dim=-1).topk(min(count, logits.shape[-1]))
            for nll, *pair in zip(nll_nats.tolist(), token_ids.tolist(), shares.tolist(), strict=True):
                yield Prediction(nll, list(zip(*pair, strict=True)))


def row_logits(loaded: LoadedModel, row: Tensor) -> Iterator[Tensor]:
    """Yield the logits for all tokens of a row except the first, in parts of shape (n, V)."""
    input_ids, state = shifted(row)[0], None
    read = iter(histories(input_ids[None].numpy(), loaded.model.context_length)[0])
    for piece in input_ids.split(EVALUATION_WINDOW):
        hidden, state = loaded.model.hidden(piece[None], state)
        for vectors in hidden[0].split(CPU_ROWS):
            yield loaded.model.mixed_logits(vectors, list(islice(read, len(vectors))))


class ScoredId(NamedTuple):
    """The log-probabilities in nats of one token of a list and of the most probable tokens at its position.

    The list of most probable tokens includes the token itself.
    """

    log_probability: float
    top: TopTokens


@torch.inference_mode()
def score_ids(loaded: LoadedModel, token_ids: list[int], count: int, check: Callable[[], None]) -> list[ScoredId]:
    """Score token ids as one row after `<bos>`. See score_text() for `check`."""
    loaded = replace(loaded, model=interruptible(loaded.model, check))
    scores: list[ScoredId] = []
    expected = iter(token_ids)
    for logits in row_logits(loaded, torch.tensor([loaded.tokenizer.bos_id, *token_ids])) if token_ids else ():
        for log_probabilities in logits.log_softmax(dim=-1):
            token_id = next(expected)
            own = float(log_probabilities[token_id])
            values, top_ids = log_probabilities.topk(min(max(count, 1), len(log_probabilities)))
            scores.append(ScoredId(own, [*zip(top_ids.tolist(), values.tolist(), strict=True), (token_id, own)]))
    return scores


def explain_text(loaded: LoadedModel, request: ExplainRequest, check: Callable[[], None] | None = None) -> Explained:
    """Explain a text step by step. `check` is called before each step, and may end the work by raising an exception."""
    explanation = explain(loaded.model, loaded.tokenizer, loaded.cut, request.text, request.alternatives, check)
    _, layers, hidden_size = explanation.states.shape
    units = shown_units(layers, hidden_size)
    # The states are rounded as float64, because rounded float32 numbers would have many decimals in JSON.
    states = explanation.states[:, :, units].astype(np.float64).round(STATE_DECIMALS)
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
    """Return the indices of evenly spaced units of the state. They are the same for each layer."""
    count = min(hidden_size, max(1, UNITS_SHOWN // layers))
    return [int(unit) for unit in np.linspace(0, hidden_size - 1, count).round()]
