"""What a model writes after a context, up to a stop: many contexts at once, each as it would be alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rnnlm.generation.sampling import Sampling, sample_next
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import EVALUATION_WINDOW, Mode
from rnnlm.tokenizers.face import BOS, EOS, PAD, TextTokenizer


@dataclass
class Answer:
    """A text in the making."""

    context: str
    ids: list[int] = field(default_factory=list)
    text: str = ""
    finished: bool = False


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
    answers = [Answer(context) for context in contexts]
    generators = [torch.Generator().manual_seed(sampling.seed) for _ in answers]
    hidden, state = read_contexts(model, [context_ids(tokenizer, mode, context) for context in contexts])
    writing = list(range(len(answers)))
    for _ in range(sampling.maximum_tokens):
        logits = model.logits(hidden).cpu()
        chosen = [sample_next(row, sampling, generators[i]) for row, i in zip(logits, writing, strict=True)]
        for index, token_id in zip(writing, chosen, strict=True):
            extend(answers[index], token_id, tokenizer, mode, stops)
        going_on = [place for place, index in enumerate(writing) if not answers[index].finished]
        if not going_on:
            break
        token_ids = torch.tensor([[chosen[place]] for place in going_on], device=state.device)
        outputs, state = model.hidden(token_ids, state[going_on])
        hidden, writing = outputs[:, -1], [writing[place] for place in going_on]
    return [answer.text for answer in answers]


def context_ids(tokenizer: TextTokenizer, mode: Mode, context: str) -> list[int]:
    """`<bos>` and the context, which may go on in its last line. A sentence knows nothing of the lines before it."""
    lines = [tokenizer.encode(line) for line in context.split("\n")]
    if mode == "sentence":
        return [BOS, *lines[-1]]
    return [BOS, *(token_id for line in lines[:-1] for token_id in [*line, EOS]), *lines[-1]]


def read_contexts(model: ElmanLanguageModel, contexts: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """The top layer after each context (b, H), and the state (b, L, H). Read together, padded at the left."""
    device = model.embedding.weight.device
    longest = max(map(len, contexts))
    token_ids = torch.tensor([[PAD] * (longest - len(ids)) + ids for ids in contexts], device=device)
    state: Tensor | None = None
    for window in token_ids.split(EVALUATION_WINDOW, dim=1):
        outputs, state = model.hidden(window, state, mask=window.ne(PAD))
    assert state is not None  # every context holds <bos>
    return outputs[:, -1], state


def extend(answer: Answer, token_id: int, tokenizer: TextTokenizer, mode: Mode, stops: Sequence[str]) -> None:
    """Write one more token, and see whether that ends the answer."""
    if token_id == EOS and mode == "sentence":
        answer.finished = True
        return
    answer.ids.append(token_id)
    text = text_of(answer.ids, tokenizer, answer.context)
    found = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    answer.text = text[: min(found)] if found else text
    answer.finished = bool(found)


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
