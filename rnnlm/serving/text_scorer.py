"""A text's probability, token by token, with what the model expected instead."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from rnnlm.evaluation.document_losses import document_losses, streams
from rnnlm.losses.loss import CPU_ROWS
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batches import EVALUATION_WINDOW
from rnnlm.sequences.segmentation import TokenRows, rows_from_lists, sentences
from rnnlm.sequences.shift import shifted
from rnnlm.serving.messages import Alternative, Scored, ScoredToken, ScoreRequest
from rnnlm.serving.model_loader import LoadedModel
from rnnlm.serving.text_stream import spelling

Likeliest = list[tuple[int, float]]  # (token id, probability)


class InterruptibleModel:
    """A language model that calls `check` before each stretch of text it reads: what that raises ends the work."""

    def __init__(self, model: ElmanLanguageModel, check: Callable[[], None]) -> None:
        self._model, self._check = model, check

    def hidden(self, *arguments: Any, **options: Any) -> Any:
        self._check()
        return self._model.hidden(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def score_text(loaded: LoadedModel, request: ScoreRequest, check: Callable[[], None] | None = None) -> Scored:
    """Figures by document_losses; beside each token its place in the text and the likeliest in its stead.

    check is called between stretches of the text; what it raises comes out.
    """
    if check is not None:
        loaded = replace(loaded, model=cast(ElmanLanguageModel, InterruptibleModel(loaded.model, check)))
    text = request.text
    (loss,) = document_losses(loaded.model, loaded.tokenizer, [text], loaded.cut)
    places = list(token_places(loaded, text))
    expected: list[Likeliest] = [[] for _ in places]
    if request.alternatives and places:
        expected = likeliest_tokens(loaded, text, request.alternatives)
    tokens = [
        ScoredToken(
            text=text[start:end],
            token_id=token_id,
            surprisal_nats=nll,
            start=start,
            end=end,
            alternatives=named(loaded, likeliest),
        )
        for (start, end), token_id, nll, likeliest in zip(
            places, loss.token_ids.tolist(), loss.nll_nats.tolist(), expected, strict=True
        )
    ]
    return Scored(
        model=loaded.label,
        log_probability_nats=-loss.summed_nll_nats,
        perplexity=or_none(loss.perplexity),
        bits_per_byte=or_none(loss.bits_per_byte),
        byte_count=loss.byte_count,
        unknown_tokens=loss.unknown_tokens,
        tokens=tokens,
    )


def named(loaded: LoadedModel, likeliest: Likeliest) -> list[Alternative]:
    return [Alternative(text=spelling(loaded.tokenizer, token), probability=share) for token, share in likeliest]


def or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def token_places(loaded: LoadedModel, text: str) -> Iterator[tuple[int, int]]:
    """(start, end) in the text of each token that document_losses scores; `<eos>` stands on its line's end."""
    first = 0
    for line in text.removesuffix("\n").split("\n"):
        spans = [(first + start, first + end) for _, start, end in loaded.tokenizer.spans(line)]
        last = first + len(line)
        if spans or loaded.cut.mode == "stream":
            yield from spans
            yield last, min(last + 1, len(text))  # nothing where the last line has no end
        first = last + 1


@torch.inference_mode()
def likeliest_tokens(loaded: LoadedModel, text: str, count: int) -> list[Likeliest]:
    """For each scored token the `count` that the model held likeliest there, by a reading row after row."""
    found: list[Likeliest] = []
    for row in scored_rows(loaded, text):
        state = None
        for piece in shifted(row)[0].split(EVALUATION_WINDOW):
            hidden, state = loaded.model.hidden(piece[None], state)
            for some in hidden[0].split(CPU_ROWS):
                shares, token_ids = loaded.model.logits(some).softmax(dim=-1).topk(count)
                found += [
                    list(zip(*pair, strict=True)) for pair in zip(token_ids.tolist(), shares.tolist(), strict=True)
                ]
    return found


def scored_rows(loaded: LoadedModel, text: str) -> Iterator[torch.Tensor]:
    """The rows that document_losses reads: (tokens,) int64 each, the first of them context."""
    lines = rows_from_lists(loaded.tokenizer.encode_lines(text.removesuffix("\n").split("\n")))
    if loaded.cut.mode == "sentence":
        rows: TokenRows = sentences(lines, loaded.cut.context_length)
    else:
        rows = streams(lines, np.array([len(lines)], np.int64))
    for first, last in zip(rows.offsets, rows.offsets[1:], strict=False):
        yield torch.from_numpy(rows.token_ids[first:last].astype(np.int64))
