"""Explain a text step by step: what the model reads, what it must predict, its state, probabilities and loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from rnnlm.evaluation.document_losses import Cut, DocumentLoss, document_losses
from rnnlm.evaluation.text_tokens import scored_rows, spelling, token_positions
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import histories
from rnnlm.sequences.shift import shifted
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, LONE_SURROGATE, UNK, TextTokenizer


@dataclass(frozen=True)
class ExplanationStep:
    """One shifted pair: the model reads the input and predicts the target, the token after it."""

    input_text: str  # as in the text; special tokens by their names
    input_id: int
    target_text: str
    target_id: int
    start: int  # of the target in the text, in code points
    end: int
    starts_row: bool  # the state before it is zero
    nll_nats: float  # loss: minus the natural logarithm of the target's probability
    rank: int  # of the target by probability; 1: the most probable token
    alternatives: tuple[tuple[str, float], ...]  # most probable tokens with their probability
    spelling_bits: float  # what an unknown word costs besides its `<unk>`; 0 for other tokens

    @property
    def probability(self) -> float:
        return math.exp(-self.nll_nats)

    @property
    def is_unknown(self) -> bool:
        """The target is read as `<unk>`, and is not the corpus's own sign for an unknown word."""
        return self.spelling_bits >= 1


@dataclass(frozen=True)
class Explanation:
    steps: tuple[ExplanationStep, ...]
    states: np.ndarray  # (steps, layers, hidden size) float32: after the input of each step
    loss: DocumentLoss  # of the whole text, as `rnnlm evaluate` computes it


def explain(
    model: LanguageModel,
    tokenizer: TextTokenizer,
    cut: Cut,
    text: str,
    alternatives: int = 5,
    check: Callable[[], None] | None = None,
) -> Explanation:
    """Read the text token by token, cut into rows as document_losses() cuts it.

    alternatives: number of most probable tokens per step. check: called before each step; its exceptions are re-raised.
    """
    text = LONE_SURROGATE.sub("\ufffd", text)
    (loss,) = document_losses(model, tokenizer, [text], cut)
    count = min(alternatives, tokenizer.vocabulary_size)
    readings = [reading for row in scored_rows(tokenizer, cut, text) for reading in read_row(model, row, count, check)]
    steps: list[ExplanationStep] = []
    for reading, (start, end), nll_nats in zip(
        readings, token_positions(tokenizer, cut, text), loss.nll_nats.tolist(), strict=True
    ):
        target_text = text_of(tokenizer, reading.target_id, text[start:end])
        is_unknown = reading.target_id == UNK
        steps.append(
            ExplanationStep(
                # Each input but `<bos>` was the target of the step before.
                input_text=spelling(tokenizer, BOS) if reading.input_id == BOS else steps[-1].target_text,
                input_id=reading.input_id,
                target_text=target_text,
                target_id=reading.target_id,
                start=start,
                end=end,
                starts_row=reading.starts_row,
                nll_nats=nll_nats,
                rank=reading.rank,
                alternatives=tuple((spelling(tokenizer, token_id), share) for token_id, share in reading.top),
                spelling_bits=tokenizer.spelling_bits(1, tokenizer.unknown_words(target_text)) if is_unknown else 0.0,
            )
        )
    empty = np.zeros((0, len(model.stack.cells), model.stack.hidden_size), np.float32)
    return Explanation(tuple(steps), np.concatenate([empty, *(reading.outputs for reading in readings)]), loss)


@dataclass(frozen=True)
class Reading:
    """A model's state, probabilities and loss after one input."""

    input_id: int
    target_id: int
    starts_row: bool
    rank: int  # of the target
    top: list[tuple[int, float]]  # (token id, probability), most probable first
    outputs: np.ndarray  # (1, layers, hidden size), of each layer after the input; of an Elman layer its state


@torch.inference_mode()
def read_row(model: LanguageModel, row: torch.Tensor, count: int, check: Callable[[], None] | None) -> list[Reading]:
    """row: (t + 1,) token ids → t readings, one token at a time: the outputs of all layers are needed."""
    readings: list[Reading] = []
    state = model.stack.initial_state(1)
    contexts = histories(row[None, :-1].numpy(), model.context_length)[0]
    for input_id, target_id, context in zip(*shifted(row), contexts, strict=True):
        if check is not None:
            check()
        top, outputs, state = model.stack.step(model.embedding(input_id[None]), state)
        logits = model.mixed_logits(model.readout(top), [context])[0]  # (V,)
        probabilities, token_ids = logits.softmax(dim=0).topk(count)
        readings.append(
            Reading(
                input_id=int(input_id),
                target_id=int(target_id),
                starts_row=not readings,
                rank=1 + int((logits > logits[target_id]).sum()),
                top=list(zip(token_ids.tolist(), probabilities.tolist(), strict=True)),
                outputs=outputs.numpy(),
            )
        )
    return readings


def text_of(tokenizer: TextTokenizer, token_id: int, covered: str) -> str:
    """The text that the token covers; if it covers none, such as part of a character, its spelling."""
    return spelling(tokenizer, token_id) if token_id == EOS or not covered else covered
