"""What a model writes after a context, up to a stop: many contexts at once, each as it would be alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Continuation, Continuations, Sampling
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.segmentation import Mode
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer

NO_END = -1  # no token's id: nothing that is written ends the text


@dataclass
class Answer:
    """A text in the making, which hears of each of its tokens (a sampling.Notice)."""

    context: str
    tokenizer: TextTokenizer
    stops: Sequence[str]
    text: str = ""

    def __call__(self, continuation: Continuation, logits: Tensor) -> None:
        """One more token is written; a stop ends the answer before itself."""
        if continuation.done and continuation.ids[-1] == EOS:
            return
        text = text_of(continuation.ids, self.tokenizer, self.context)
        found = [place for stop in self.stops if stop and (place := text.find(stop)) >= 0]
        self.text = text[: min(found)] if found else text
        continuation.done = continuation.done or bool(found)


@torch.inference_mode()
def write_answers(
    model: ElmanLanguageModel,
    tokenizer: TextTokenizer,
    mode: Mode,
    contexts: Sequence[str],
    stops: Sequence[str],
    sampling: Sampling,
) -> list[str]:
    """One answer a context: what the model writes before the first of `stops`, or sampling.maximum_tokens tokens.

    In `stream` mode `<eos>` is a line feed and writing goes on after it; in `sentence` mode it ends the answer. At
    word level an answer begins with the space that a context without one lacks: context and answer are the text.
    """
    answers = [Answer(context, tokenizer, stops) for context in contexts]
    continuations = Continuations(InferenceWeights(model), EOS if mode == "sentence" else NO_END)
    for answer in answers:
        continuations.add(context_ids(tokenizer, mode, answer.context), sampling, answer)
    while continuations.running:
        continuations.step()
    return [answer.text for answer in answers]


def context_ids(tokenizer: TextTokenizer, mode: Mode, context: str) -> list[int]:
    """`<bos>` and the context, which may go on in its last line. A sentence knows nothing of the lines before it."""
    lines = [tokenizer.encode(line) for line in context.split("\n")]
    if mode == "sentence":
        return [BOS, *lines[-1]]
    return [BOS, *(token_id for line in lines[:-1] for token_id in [*line, EOS]), *lines[-1]]


def text_of(ids: list[int], tokenizer: TextTokenizer, context: str) -> str:
    """The tokens as text that goes on where the context ends; `<eos>` is a line feed."""
    lines: list[list[int]] = [[]]
    for token_id in ids:
        if token_id == EOS:
            lines.append([])
        else:
            lines[-1].append(token_id)
    text = "\n".join(tokenizer.decode(line) for line in lines)
    lacks_space = tokenizer.kind == "word" and bool(context) and not context[-1].isspace()
    return f" {text}" if lacks_space and lines[0] else text
