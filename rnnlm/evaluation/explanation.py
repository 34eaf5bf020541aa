"""Explain a text step by step: what the model reads, what it must predict, its state, probabilities and loss."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

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
    states: np.ndarray  # (steps, layers, hidden size) float32: after each step's input; of an ensemble's first network
    loss: DocumentLoss  # of the whole text, as `rnnlm evaluate` computes it


@torch.inference_mode()
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
    places = zip(token_positions(tokenizer, cut, text), loss.nll_nats.tolist(), strict=True)
    count = min(alternatives, tokenizer.vocabulary_size)
    steps: list[ExplanationStep] = []
    stack = model.networks[0].stack
    states = [np.zeros((0, len(stack.cells), stack.hidden_size), np.float32)]
    for row in scored_rows(tokenizer, cut, text):
        starts_row = True
        for input_id, target_id, logits, outputs in read_row(model, row):
            if check is not None:
                check()
            (start, end), nll_nats = next(places)
            # A token that covers no text, such as part of a character, is shown by its spelling.
            covered = text[start:end] if target_id != EOS else ""
            target_text = covered or spelling(tokenizer, target_id)
            shares, token_ids = logits.softmax(dim=0).topk(count)
            unknown = tokenizer.unknown_words(target_text) if target_id == UNK else None
            steps.append(
                ExplanationStep(
                    # Each input but `<bos>` was the target of the step before.
                    input_text=spelling(tokenizer, BOS) if input_id == BOS else steps[-1].target_text,
                    input_id=input_id,
                    target_text=target_text,
                    target_id=target_id,
                    start=start,
                    end=end,
                    starts_row=starts_row,
                    nll_nats=nll_nats,
                    rank=1 + int((logits > logits[target_id]).sum()),
                    alternatives=tuple(
                        zip((spelling(tokenizer, one) for one in token_ids.tolist()), shares.tolist(), strict=True)
                    ),
                    spelling_bits=0.0 if unknown is None else tokenizer.spelling_bits(1, unknown),
                )
            )
            states.append(outputs.numpy())
            starts_row = False
    return Explanation(tuple(steps), np.concatenate(states), loss)


def read_row(model: LanguageModel, row: Tensor) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """Yield for each of t inputs its id, its target's, the logits (V,) and the outputs (1, layers, H).

    row: (t + 1,) ids.

    One token at a time: the outputs of all layers are needed; that of an Elman layer is its state. The outputs of an
    ensemble are those of its first network.
    """
    networks = model.networks
    states = [network.stack.initial_state(1) for network in networks]
    contexts = histories(row[None, :-1].numpy(), model.context_length)[0]
    for input_id, target_id, context in zip(*shifted(row), contexts, strict=True):
        steps = [
            network.stack.step(network.embedding(input_id[None]), state)
            for network, state in zip(networks, states, strict=True)
        ]
        states = [state for _, _, state in steps]
        hidden = [network.readout(top) for network, (top, _, _) in zip(networks, steps, strict=True)]
        logits = model.mixed_logits(torch.cat(hidden, dim=-1), [context])[0]
        yield int(input_id), int(target_id), logits, steps[0][1]
