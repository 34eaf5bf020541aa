"""Generate text after a context up to a stop sequence, for EleutherAI's harness.

The results do not depend on the batch size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Continuation, Continuations, Sampling
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.segmentation import Mode
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer

NO_END = -1  # An id that no token has, which replaces the id of `<eos>` if no token ends the text.


@dataclass
class Answer:
    """The text that is generated after one context. The object is called with each new token, as a sampling.OnToken."""

    context: str
    tokenizer: TextTokenizer
    stops: Sequence[str]
    end: int  # The id of the token that ends the text, or NO_END.
    text: str = ""

    def __call__(self, continuation: Continuation, logits: Tensor) -> None:
        """Append the new token, and end the text before the first stop sequence."""
        if continuation.ids[-1] == self.end:
            return
        text = continuation_text(continuation.ids, self.tokenizer, self.context)
        found = [place for stop in self.stops if stop and (place := text.find(stop)) >= 0]
        self.text = text[: min(found)] if found else text
        continuation.done = continuation.done or bool(found)


@torch.inference_mode()
def write_answers(
    model: LanguageModel,
    tokenizer: TextTokenizer,
    mode: Mode,
    contexts: Sequence[str],
    stops: Sequence[str],
    sampling: Sampling,
) -> list[str]:
    """Return an answer to each context: the text before the first of `stops`, at most sampling.maximum_tokens tokens.

    In `stream` mode `<eos>` is a line feed and the answer continues. In `sentence` mode it ends the answer. With a word
    tokenizer, the answer begins with a space unless the context ends with white space, so that context and answer can
    be concatenated.
    """
    end = EOS if mode == "sentence" else NO_END
    answers = [Answer(context, tokenizer, stops, end) for context in contexts]
    continuations = Continuations(InferenceWeights(model), end)
    for answer in answers:
        continuations.add(context_ids(tokenizer, mode, answer.context), sampling, answer)
    while continuations.running:
        continuations.step()
    return [answer.text for answer in answers]


def context_ids(tokenizer: TextTokenizer, mode: Mode, context: str) -> list[int]:
    """Return the token ids of `<bos>` and the context, without `<eos>` after its last line, which may continue.

    In `sentence` mode only the last line is used.
    """
    lines = [tokenizer.encode(line) for line in context.split("\n")]
    if mode == "sentence":
        return [BOS, *lines[-1]]
    return [BOS, *(token_id for line in lines[:-1] for token_id in [*line, EOS]), *lines[-1]]


def continuation_text(ids: list[int], tokenizer: TextTokenizer, context: str) -> str:
    """Decode the tokens to text that continues the context. `<eos>` becomes a line feed."""
    lines: list[list[int]] = [[]]
    for token_id in ids:
        if token_id == EOS:
            lines.append([])
        else:
            lines[-1].append(token_id)
    text = "\n".join(tokenizer.decode(line) for line in lines)
    lacks_space = tokenizer.kind == "word" and bool(context) and not context[-1].isspace()
    return f" {text}" if lacks_space and lines[0] else text
