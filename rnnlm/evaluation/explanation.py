"""Explanations of how a model reads a text, with the tokens, states, probabilities and losses of each step."""

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
    """One step of the explanation. The model reads the input token and predicts the target, which is the next token."""

    input_text: str  # The text of the token that is read. Special tokens are shown by their names.
    input_id: int
    target_text: str
    target_id: int
    start: int  # The position of the target in the text, in code points.
    end: int
    starts_row: bool  # True if this step is the first of a row. The state before it is zero.
    nll_nats: float  # The loss of the step, which is minus the natural logarithm of the target's probability.
    rank: int  # The rank of the target among all tokens. The most probable token has rank 1.
    alternatives: tuple[tuple[str, float], ...]  # The most probable tokens with their probabilities.
    # The number of bits to spell an unknown word, in addition to the loss of its `<unk>`. It is 0 for other tokens.
    spelling_bits: float

    @property
    def probability(self) -> float:
        return math.exp(-self.nll_nats)

    @property
    def is_unknown(self) -> bool:
        """True if the target is an unknown word, and not a `<unk>` that occurs in the corpus."""
        return self.spelling_bits >= 1


@dataclass(frozen=True)
class Explanation:
    steps: tuple[ExplanationStep, ...]
    # The states of all layers after each input, (steps, layers, hidden size) float32. In an ensemble they are those of
    # the first network.
    states: np.ndarray
    loss: DocumentLoss  # The loss of the whole text, as `rnnlm evaluate` computes it.


@torch.inference_mode()
def explain(
    model: LanguageModel,
    tokenizer: TextTokenizer,
    cut: Cut,
    text: str,
    alternatives: int = 5,
    check: Callable[[], None] | None = None,
) -> Explanation:
    """Return an explanation of the text, which the model reads token by token.

    The text is split into rows in the same way as in document_losses(). `alternatives` is the number of most probable
    tokens to list per step. `check` is called before each step, and may raise an exception to stop the explanation.
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
            # A token that adds no text, such as a part of a character, is shown in the vocabulary's spelling.
            covered = text[start:end] if target_id != EOS else ""
            target_text = covered or spelling(tokenizer, target_id)
            shares, token_ids = logits.softmax(dim=0).topk(count)
            unknown = tokenizer.unknown_words(target_text) if target_id == UNK else None
            steps.append(
                ExplanationStep(
                    # Each input except `<bos>` was the target of the previous step.
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
    """Yield the input id, the target id, the logits (V,) and the layers' outputs (1, layers, H) of each step of a row.

    `row` contains t + 1 ids for t steps. The model reads one token at a time, because the outputs of all layers are
    needed. The output of an Elman layer is its state. If the model is an ensemble, the outputs are those of the first
    network.
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
