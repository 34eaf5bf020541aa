"""Choosing the next token, and going on from there with the state carried: the one loop behind every generated text.

One prompt or many at once: each has settings and a generator of its own, so its text does not depend on what else is
in the batch (but for the rounding of matrix products, see Continuations). Needs torch and NumPy alone: it travels with
every registered model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

PIECE = 256  # tokens of a prompt that are read at once


@dataclass(frozen=True)
class Sampling:
    maximum_tokens: int = 40
    temperature: float = 0.8  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int = 0


class Stepper(Protocol):
    """A model that reads on token by token, for rows of text that come and go; called in torch.inference_mode()."""

    def read(self, token_ids: list[int], state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One text read on from a state, None at its beginning → logits (1, V) after it, and the state there."""

    def join(self, state: Tensor) -> None:
        """One more row, the last, in the state that read() gave."""

    def step(self, token_ids: list[int]) -> Tensor:
        """One more token for each row → logits (rows, V), which the next step may overwrite."""

    def keep(self, rows: list[int]) -> None:
        """These rows in this order are left; the others are forgotten."""


class Steppable(Protocol):
    """What prompts are continued by: stepping.InferenceWeights(model)."""

    def stepper(self, rows_in_products: int) -> Stepper:
        """A new one, of no rows."""


@dataclass(eq=False)  # two are the same only if they are one
class Continuation:
    """What is being written after one prompt."""

    sampling: Sampling
    generator: torch.Generator
    unread: list[int] = field(default_factory=list)  # of the prompt
    notice: "Notice | None" = None
    state: Any = None  # after what was read of the prompt, until it joins the others
    ids: list[int] = field(default_factory=list)  # new ones, `<eos>` among them where it was chosen
    done: bool = False  # nothing will follow. A notice, too, may set it


# Called for each new token, the last of continuation.ids, with the logits (V,) that it was chosen from: what the model
# thought before any sampling. The next step overwrites them.
Notice = Callable[[Continuation, Tensor], None]


def choose(logits: Tensor, continuations: Sequence[Continuation]) -> list[int]:
    """logits: (rows, V) → the id of each row's next token, drawn as torch.multinomial would from that row alone.

    Drawn on the CPU: a seed gives the same text on a GPU, rounding apart.
    """
    drawn = [row for row, continuation in enumerate(continuations) if continuation.sampling.temperature > 0]
    if not drawn:
        return likeliest(logits)
    rows = logits[drawn].float().cpu()
    # The largest of p / e, e exponential, is token i with probability p_i (the Gumbel trick, without its logarithms).
    noise = torch.empty_like(rows)
    for row, own_noise, index in zip(rows, noise, drawn, strict=True):
        sampling = continuations[index].sampling
        row.copy_(kept(row.div_(sampling.temperature), sampling))
        own_noise.exponential_(generator=continuations[index].generator)
    ids = likeliest(logits) if len(drawn) < len(continuations) else [0] * len(drawn)
    for index, token_id in zip(drawn, likeliest(rows.softmax(dim=-1).div_(noise)), strict=True):
        ids[index] = token_id
    return ids


def likeliest(logits: Tensor) -> list[int]:
    """logits: (rows, V) → the first id of the largest of each row."""
    # By NumPy where it knows the numbers: it compares eight at a time, torch's argmax one by one.
    on_cpu = logits.is_cpu and logits.dtype == torch.float32
    chosen: list[int] = (logits.numpy().argmax(axis=-1) if on_cpu else logits.argmax(dim=-1)).tolist()
    return chosen


def sample_next(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """logits: (V,) → the id of the next token."""
    return choose(logits[None], [Continuation(sampling, generator)])[0]


def kept(logits: Tensor, sampling: Sampling) -> Tensor:
    """logits: (V,) with -inf for what top-k and top-p (Holtzman et al. 2020) leave out."""
    if 0 < sampling.top_k < len(logits):
        threshold = logits.topk(sampling.top_k).values[-1]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    if sampling.top_p < 1:
        probabilities = logits.softmax(dim=-1)
        ordered = np.sort(probabilities.numpy())[::-1]  # by NumPy: torch's sort takes five times as long
        # A token stays while the ones before it hold less than top_p; the likeliest even where a float32 takes that
        # for 0. Of equally likely ones all stay, as with top-k.
        count = max(1, int(np.count_nonzero(ordered.cumsum() - ordered < sampling.top_p)))
        logits = logits.masked_fill(probabilities < float(ordered[count - 1]), float("-inf"))
    return logits


class Continuations:
    """Prompts continued together. One may be added while others are on their way; each stops by itself.

    Called in torch.inference_mode(), which whoever goes round enters once: it costs as much as a layer of a step.

    rows_in_products: every product has a multiple of so many rows, empty ones among them. Products of other numbers of
    rows add up in other orders, and a last bit can turn a draw: with 8, in torch's CPU products, a text is to the last
    bit the same alone and in any company. With 1 a single text is fastest.
    """

    def __init__(self, model: Steppable, eos_id: int, rows_in_products: int = 1) -> None:
        self.stepper = model.stepper(rows_in_products)
        self.eos_id = eos_id
        self.running: list[Continuation] = []  # one a row of the stepper

    def add(self, prompt_ids: list[int], sampling: Sampling, notice: Notice | None = None) -> Continuation:
        """Read a prompt, which begins with `<bos>`, and choose the first token after it."""
        continuation = begin(prompt_ids, sampling, notice)
        while continuation.unread:
            self.read(continuation)
        return continuation

    def read(self, continuation: Continuation) -> None:
        """Read on in its prompt, PIECE tokens at most. At its end the first token is chosen; from then on it runs."""
        piece, continuation.unread = continuation.unread[:PIECE], continuation.unread[PIECE:]
        logits, continuation.state = self.stepper.read(piece, continuation.state)
        if not continuation.unread:
            self.stepper.join(continuation.state)
            self.running.append(continuation)
            continuation.state = None
            self.write([continuation], logits)

    def step(self) -> None:
        """One more token for each that is running."""
        logits = self.stepper.step([continuation.ids[-1] for continuation in self.running])
        self.write(self.running, logits)

    def write(self, continuations: list[Continuation], logits: Tensor) -> None:
        """Choose a token for each of these, and let go of those that it ends."""
        ended = False
        for row, (continuation, token_id) in enumerate(zip(continuations, choose(logits, continuations), strict=True)):
            continuation.ids.append(token_id)
            if token_id == self.eos_id or len(continuation.ids) >= continuation.sampling.maximum_tokens:
                continuation.done = True
            if continuation.notice is not None:
                continuation.notice(continuation, logits[row])
            ended = ended or continuation.done
        if ended:
            self.let_go()

    def let_go(self) -> None:
        """Forget those that are done: called by whoever sets `done` between two steps."""
        left = [row for row, continuation in enumerate(self.running) if not continuation.done]
        if len(left) < len(self.running):
            self.stepper.keep(left)
            self.running = [self.running[row] for row in left]


def begin(prompt_ids: list[int], sampling: Sampling, notice: Notice | None = None) -> Continuation:
    """A prompt, which begins with `<bos>`, of which nothing is read yet."""
    nothing = sampling.maximum_tokens < 1
    generator = torch.Generator().manual_seed(sampling.seed)
    return Continuation(sampling, generator, [] if nothing else prompt_ids, notice, done=nothing)


def stream_ids(model: Steppable, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> Iterator[int]:
    """New token ids one by one, up to and with `<eos>`. The prompt is read once; then one token a step."""
    continuations = Continuations(model, eos_id)
    with torch.inference_mode():
        continuation = continuations.add(prompt_ids, sampling)
    yield from continuation.ids
    while not continuation.done:
        with torch.inference_mode():  # not around the yield: whoever takes the token is not in it
            continuations.step()
        yield continuation.ids[-1]


def continue_ids(model: Steppable, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> list[int]:
    """All new token ids; the same seed gives the same ones. prompt_ids begin with `<bos>`."""
    return continue_batch(model, [prompt_ids], [sampling], eos_id)[0]


@torch.inference_mode()
def continue_batch(
    model: Steppable, prompts: Sequence[list[int]], samplings: Sequence[Sampling], eos_id: int
) -> list[list[int]]:
    """What continue_ids gives for each prompt with its own settings, all at once: many times the tokens a second."""
    continuations = Continuations(model, eos_id)
    every = [continuations.add(ids, sampling) for ids, sampling in zip(prompts, samplings, strict=True)]
    while continuations.running:
        continuations.step()
    return [continuation.ids for continuation in every]
