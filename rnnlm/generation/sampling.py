"""Sampling of next tokens with a recurrent state. All generated text comes from this loop.

Each prompt in a batch has its own settings and random generator. Hence its text does not depend on the other prompts,
except by rounding in matrix products (see Continuations). The module is copied into every registered model, so it
imports only torch and NumPy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import ModelError

PROMPT_PIECE_TOKENS = 256  # The largest number of tokens of a prompt that are read in one call.


@dataclass(frozen=True)
class Sampling:
    maximum_tokens: int = 40
    temperature: float = 0.8  # The divisor of the logits. At temperature 0, decoding is greedy.
    top_k: int = 0  # Only the top_k most probable tokens may be chosen. 0 means no limit.
    # Only the most probable tokens whose probabilities sum to top_p may be chosen. 1 means no limit.
    top_p: float = 1.0
    seed: int = 0
    minimum_tokens: int = 0  # `<eos>` is not chosen until the text has this number of tokens.
    excluded_id: int | None = None  # A token that is never chosen.


def text_sampling(sampling: Sampling, unk_id: int, *, unknown: bool = False) -> Sampling:
    """Return the settings for a text that is shown to users.

    The text has at least one token, and no `<unk>` unless `unknown` is true.
    """
    minimum = max(1, sampling.minimum_tokens)
    return replace(sampling, minimum_tokens=minimum, excluded_id=None if unknown else unk_id)


class Stepper(Protocol):
    """A model that reads rows of text token by token, to which rows can be added and from which they can be removed.

    The methods must be called in torch.inference_mode().
    """

    def read(self, token_ids: list[int], state: Any) -> tuple[Tensor, Any]:
        """Read one text, beginning with `state`, or with a zero state if it is None.

        Return the logits (1, V) and the new state.
        """

    def join(self, state: Any) -> None:
        """Append a row whose state was returned by read()."""

    def step(self, token_ids: list[int]) -> Tensor:
        """Read one more token in each row. Return the logits (rows, V), which the next step may overwrite."""

    def keep(self, rows: list[int]) -> None:
        """Keep only the rows with the numbers `rows`, in this order."""


class SteppableModel(Protocol):
    """A model that can continue prompts, such as InferenceWeights(model)."""

    def stepper(self, rows_in_products: int) -> Stepper:
        """Return a new stepper without rows."""


@dataclass(eq=False)
class Continuation:
    """The text that is being generated after a prompt. Continuations are compared by identity."""

    sampling: Sampling
    generator: torch.Generator
    unread: list[int] = field(default_factory=list)  # The tokens of the prompt that have not been read yet.
    on_token: "OnToken | None" = None
    # The state after the part of the prompt that was read. After that, the stepper holds the state.
    state: Any = None
    ids: list[int] = field(default_factory=list)  # The new tokens, including `<eos>` if it was sampled.
    done: bool = False  # True if no more tokens follow. The function on_token may set it.


# A function that is called for each new token, continuation.ids[-1], with the logits (V,) before sampling. The next
# step overwrites these logits.
OnToken = Callable[[Continuation, Tensor], None]


def choose(logits: Tensor, continuations: Sequence[Continuation], eos_id: int) -> list[int]:
    """Draw the next token id of each row from its distribution, given the logits (rows, V).

    Sampling happens on the CPU, so that a seed gives the same text on a GPU, apart from rounding.
    """
    logits = without_excluded(logits, continuations, eos_id)
    sampled = [row for row, continuation in enumerate(continuations) if continuation.sampling.temperature > 0]
    if not sampled:
        return argmax_ids(logits)
    rows = logits[sampled].float().cpu()
    # argmax(p_i / e_i) with exponentially distributed e_i is token i with the probability p_i. This is the Gumbel trick
    # without logarithms.
    noise = torch.empty_like(rows)
    for row, row_noise, index in zip(rows, noise, sampled, strict=True):
        sampling = continuations[index].sampling
        row.copy_(truncated(row.div_(sampling.temperature), sampling))
        row_noise.exponential_(generator=continuations[index].generator)
    ids = argmax_ids(logits) if len(sampled) < len(continuations) else [0] * len(sampled)
    for index, token_id in zip(sampled, argmax_ids(rows.softmax(dim=-1).div_(noise)), strict=True):
        ids[index] = token_id
    return ids


def without_excluded(logits: Tensor, continuations: Sequence[Continuation], eos_id: int) -> Tensor:
    """Return the logits, (rows, V), with -inf for tokens that a row may not choose.

    The result is a copy if there are such tokens.
    """
    excluded: list[tuple[int, int]] = []
    for row, continuation in enumerate(continuations):
        sampling = continuation.sampling
        if sampling.excluded_id is not None:
            excluded.append((row, sampling.excluded_id))
        if len(continuation.ids) < sampling.minimum_tokens:
            excluded.append((row, eos_id))
    if excluded:
        logits = logits.clone()
        rows, ids = zip(*excluded, strict=True)
        logits[list(rows), list(ids)] = float("-inf")
    return logits


def argmax_ids(logits: Tensor) -> list[int]:
    """Return the first index of each row's maximum. Raise ModelError if a maximum is NaN or infinite.

    The logits have shape (rows, V).
    """
    # NumPy is several times as fast as torch's argmax, because it compares eight numbers at a time.
    if logits.is_cpu and logits.dtype == torch.float32:
        values = logits.numpy()
        found = values.argmax(axis=-1)
        largest = values[np.arange(len(values)), found]
    else:
        places = logits.argmax(dim=-1, keepdim=True)
        largest, found = logits.gather(-1, places).float().cpu().numpy(), places[:, 0].cpu().numpy()
    if not np.isfinite(largest).all():
        raise ModelError(
            "the logits after this text are not finite, because the model's states or weights are too large;\n"
            "train the model again, with a smaller learning rate or another nonlinearity"
        )
    ids: list[int] = found.tolist()
    return ids


def truncated(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return the logits, (V,), with -inf for tokens outside of top-k and top-p.

    Top-p sampling is also called nucleus sampling (Holtzman et al. 2020).
    """
    if 0 < sampling.top_k < len(logits):
        threshold = logits.topk(sampling.top_k).values[-1]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    if sampling.top_p < 1:
        probabilities = logits.softmax(dim=-1)
        ordered = np.sort(probabilities.numpy())[::-1]  # NumPy sorts five times as fast as torch.
        # A token is kept if the more probable tokens sum to less than top_p. The most probable token is always kept,
        # because top_p may be rounded to 0 in float32. As with top-k, all tokens with equal probabilities are kept.
        count = max(1, int(np.count_nonzero(ordered.cumsum() - ordered < sampling.top_p)))
        logits = logits.masked_fill(probabilities < float(ordered[count - 1]), float("-inf"))
    return logits


class Continuations:
    """Prompts that are continued together. Prompts may be added at any time, and each text ends independently.

    The methods must be called in torch.inference_mode(). Callers should enter this mode once around the loop, because
    entering it takes as long as one layer of a step.

    Every matrix product is padded to a multiple of `rows_in_products` rows. Products of different sizes sum in
    different orders, and a difference in the last bit can change a sample. With rows_in_products=8 on a CPU, a text has
    the same bits alone and in any batch. With rows_in_products=1, generating a single text is fastest.
    """

    def __init__(self, model: SteppableModel, eos_id: int, rows_in_products: int = 1) -> None:
        self.stepper = model.stepper(rows_in_products)
        self.eos_id = eos_id
        self.running: list[Continuation] = []  # The continuations, one for each row of the stepper.

    def add(self, prompt_ids: list[int], sampling: Sampling, on_token: OnToken | None = None) -> Continuation:
        """Read a prompt, which begins with `<bos>`, and sample the first token after it."""
        continuation = new_continuation(prompt_ids, sampling, on_token)
        while continuation.unread:
            self.read(continuation)
        return continuation

    def read(self, continuation: Continuation) -> None:
        """Read the next PROMPT_PIECE_TOKENS tokens of a prompt.

        After its last token, sample the first new token and add the row.
        """
        unread = continuation.unread
        piece, continuation.unread = unread[:PROMPT_PIECE_TOKENS], unread[PROMPT_PIECE_TOKENS:]
        logits, continuation.state = self.stepper.read(piece, continuation.state)
        if not continuation.unread:
            self.stepper.join(continuation.state)
            self.running.append(continuation)
            continuation.state = None
            self.append_tokens([continuation], logits)

    def step(self) -> None:
        """Sample one more token for each running continuation. Continuations that are done are removed."""
        logits = self.stepper.step([continuation.ids[-1] for continuation in self.running])
        self.append_tokens(self.running, logits)

    def append_tokens(self, continuations: list[Continuation], logits: Tensor) -> None:
        """Sample a token for each of these continuations, and remove those that are done."""
        token_ids = choose(logits, continuations, self.eos_id)
        for continuation, token_id, row in zip(continuations, token_ids, logits, strict=True):
            continuation.ids.append(token_id)
            if token_id == self.eos_id or len(continuation.ids) >= continuation.sampling.maximum_tokens:
                continuation.done = True
            if continuation.on_token is not None:
                continuation.on_token(continuation, row)
        self.remove_done()

    def remove_done(self) -> None:
        """Remove the rows of continuations that are done. Call this method if `done` was set between two steps."""
        left = [row for row, continuation in enumerate(self.running) if not continuation.done]
        if len(left) < len(self.running):
            self.stepper.keep(left)
            self.running = [self.running[row] for row in left]


def new_continuation(prompt_ids: list[int], sampling: Sampling, on_token: OnToken | None = None) -> Continuation:
    """Return a continuation of a prompt, which begins with `<bos>`. No token of the prompt has been read yet."""
    nothing = sampling.maximum_tokens < 1
    generator = torch.Generator().manual_seed(sampling.seed)
    return Continuation(sampling, generator, [] if nothing else prompt_ids, on_token, done=nothing)


def continue_ids(model: SteppableModel, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> list[int]:
    """Return all new token ids after a prompt, which begins with `<bos>`. The same seed gives the same ids."""
    return continue_batch(model, [prompt_ids], [sampling], eos_id)[0]


@torch.inference_mode()
def continue_batch(
    model: SteppableModel, prompts: Sequence[list[int]], samplings: Sequence[Sampling], eos_id: int
) -> list[list[int]]:
    """Continue all prompts in one batch, each with its own settings.

    This is many times as fast as continuing them one by one.
    """
    continuations = Continuations(model, eos_id)
    added = [continuations.add(ids, sampling) for ids, sampling in zip(prompts, samplings, strict=True)]
    while continuations.running:
        continuations.step()
    return [continuation.ids for continuation in added]
