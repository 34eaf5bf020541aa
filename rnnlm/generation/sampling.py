"""Choosing the next token, and going on from there with the state carried. Needs torch alone.

One prompt or many at once: each has settings and a generator of its own, so its text does not depend on what else is
in the batch (but for the rounding of matrix products, whose order of adding up depends on how many rows there are).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

NUCLEUS = 1_024  # likeliest tokens in which top-p looks first: to sort a large vocabulary costs as much as a step


@dataclass(frozen=True)
class Sampling:
    maximum_tokens: int = 40
    temperature: float = 0.8  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int = 0


class RecurrentModel(Protocol):
    """(b, t) token ids and the state before them → (b, t, V) logits and the state after them."""

    def __call__(self, token_ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]: ...


class Stepper(Protocol):
    """A model that reads on token by token, for rows of text that come and go; called in torch.inference_mode()."""

    def start(self, prompt_ids: list[int]) -> Tensor:
        """Read a prompt, into a new last row → logits (1, V) after it."""

    def step(self, token_ids: list[int]) -> Tensor:
        """One more token for each row → logits (rows, V), which the next step may overwrite."""

    def keep(self, rows: list[int]) -> None:
        """These rows in this order are left; the others are forgotten."""


class PlainStepper:
    """Any recurrent model as a Stepper: it is called for each token."""

    def __init__(self, model: RecurrentModel) -> None:
        self.model = model
        parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
        self.device = next((parameter.device for parameter in parameters), torch.device("cpu"))
        self.state: Tensor | None = None  # (rows, …)

    def start(self, prompt_ids: list[int]) -> Tensor:
        logits, state = self.model(torch.tensor([prompt_ids], device=self.device))
        self.state = state if self.state is None else torch.cat([self.state, state])
        return logits[:, -1]

    def step(self, token_ids: list[int]) -> Tensor:
        logits, self.state = self.model(torch.tensor(token_ids, device=self.device)[:, None], self.state)
        return logits[:, -1]

    def keep(self, rows: list[int]) -> None:
        assert self.state is not None, "rows were started"
        self.state = self.state[rows]


class LaidOut:
    """An ElmanLanguageModel's weights as single steps read them fastest, for as long as they stay what they are.

    The head is copied column by column: a product of one row with it is then several times as fast, and the copy costs
    about as much as 40 tokens gain. Given in place of the model it serves any number of texts.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.embedding = model.embedding.weight.detach()  # (V, E)
        self.cells = [(cell.W.detach(), cell.U.detach(), cell.b.detach()) for cell in model.stack.cells]
        self.nonlinearity_ = getattr(torch, f"{model.stack.nonlinearity}_")  # in place
        self.head = model.head.weight.detach().t().contiguous()  # (H, V)
        self.head_bias = model.head_bias().detach()  # -inf for what is never predicted


class ElmanStepper:
    """An ElmanLanguageModel as a Stepper: a step is its matrix products and little else.

    Each writes over what the last but one has written.
    """

    def __init__(self, weights: LaidOut) -> None:
        self.weights = weights
        self.hold([U.new_zeros(0, len(U)) for _, U, _ in weights.cells])

    def hold(self, state: list[Tensor]) -> None:
        """The rows from now on. state: L × (rows, H)"""
        self.state, self.next = state, [torch.empty_like(hidden) for hidden in state]
        self.logits = self.weights.head_bias.new_empty(len(state[0]), len(self.weights.head_bias))

    def start(self, prompt_ids: list[int]) -> Tensor:
        weights = self.weights
        hidden, last = weights.model.hidden(torch.tensor([prompt_ids], device=weights.head.device))
        self.hold([torch.cat([rows, new]) for rows, new in zip(self.state, last.unbind(dim=1), strict=True)])
        return torch.addmm(weights.head_bias, hidden[:, -1], weights.head)

    def step(self, token_ids: list[int]) -> Tensor:
        weights = self.weights
        below = weights.embedding[torch.tensor(token_ids, device=weights.head.device)]  # (rows, E)
        for (W, U, b), hidden, new in zip(weights.cells, self.state, self.next, strict=True):
            below = weights.nonlinearity_(torch.addmm(b, below, W, out=new).addmm_(hidden, U))
        self.state, self.next = self.next, self.state
        return torch.addmm(weights.head_bias, below, weights.head, out=self.logits)

    def keep(self, rows: list[int]) -> None:
        self.hold([hidden[rows] for hidden in self.state])


Model = RecurrentModel | LaidOut


def stepper_of(model: Model) -> Stepper:
    if isinstance(model, LaidOut):
        return ElmanStepper(model)
    # Not told by its class: a registered model carries a copy of the module, with a class of its own.
    return ElmanStepper(LaidOut(model)) if type(model).__name__ == "ElmanLanguageModel" else PlainStepper(model)


def choose(logits: Tensor, samplings: Sequence[Sampling], generators: Sequence[torch.Generator]) -> list[int]:
    """logits: (rows, V) → the id of each row's next token, drawn as torch.multinomial would from that row alone.

    Drawn on the CPU: a seed gives the same text on a GPU, rounding apart.
    """
    drawn = [row for row, sampling in enumerate(samplings) if sampling.temperature > 0]
    ids = [0] * len(samplings) if len(drawn) == len(samplings) else likeliest(logits)
    if not drawn:
        return ids
    rows = logits.detach()[drawn].float().cpu()
    for row, index in zip(rows, drawn, strict=True):
        row.copy_(kept(row.div_(samplings[index].temperature), samplings[index]))
    # The largest of p / e, e exponential, is token i with probability p_i (the Gumbel trick, without its logarithms).
    noise = torch.empty_like(rows)
    for row, index in zip(noise, drawn, strict=True):
        row.exponential_(generator=generators[index])
    for index, token_id in zip(drawn, rows.softmax(dim=-1).div_(noise).argmax(dim=-1).tolist(), strict=True):
        ids[index] = token_id
    return ids


def likeliest(logits: Tensor) -> list[int]:
    """logits: (rows, V) → the first id of the largest of each row."""
    # By NumPy where it knows the numbers: it compares eight at a time, torch's argmax one by one.
    on_cpu = logits.device.type == "cpu" and logits.dtype == torch.float32
    chosen: list[int] = (logits.detach().numpy().argmax(axis=-1) if on_cpu else logits.argmax(dim=-1)).tolist()
    return chosen


def sample_next(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """logits: (V,) → the id of the next token."""
    return choose(logits[None], [sampling], [generator])[0]


def kept(logits: Tensor, sampling: Sampling) -> Tensor:
    """logits: (V,) with -inf for what top-k and top-p (Holtzman et al. 2020) leave out."""
    if 0 < sampling.top_k < len(logits):
        threshold = logits.topk(sampling.top_k).values[-1]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    if sampling.top_p < 1:
        probabilities = logits.softmax(dim=-1)
        ordered, order = probabilities.topk(min(NUCLEUS, len(logits)))
        if float(ordered.sum()) < sampling.top_p:
            ordered, order = probabilities.sort(descending=True, stable=True)
        # A token stays while the ones before it hold less than top_p: the first always stays.
        stay = order[ordered.cumsum(dim=-1) - ordered < sampling.top_p]
        logits = torch.full_like(logits, float("-inf")).index_copy_(0, stay, logits[stay])
    return logits


@dataclass
class Continuation:
    """What is being written after one prompt."""

    sampling: Sampling
    generator: torch.Generator
    ids: list[int] = field(default_factory=list)  # new ones, `<eos>` among them where it was chosen
    done: bool = False  # nothing will follow


class Continuations:
    """Prompts continued together. One may be added while others are on their way; each stops by itself."""

    def __init__(self, model: Model, eos_id: int) -> None:
        self.stepper = stepper_of(model)
        self.eos_id = eos_id
        self.running: list[Continuation] = []  # one a row of the stepper

    @torch.inference_mode()
    def add(self, prompt_ids: list[int], sampling: Sampling) -> Continuation:
        """Read a prompt, which begins with `<bos>`, and choose the first token after it."""
        continuation = Continuation(sampling, torch.Generator().manual_seed(sampling.seed))
        if sampling.maximum_tokens < 1:
            continuation.done = True
            return continuation
        logits = self.stepper.start(prompt_ids)
        self.running.append(continuation)
        self.write([continuation], logits)
        return continuation

    @torch.inference_mode()
    def step(self) -> None:
        """One more token for each that is running."""
        logits = self.stepper.step([continuation.ids[-1] for continuation in self.running])
        self.write(self.running, logits)

    def write(self, continuations: list[Continuation], logits: Tensor) -> None:
        """Choose a token for each of these, and let go of those that it ends."""
        samplings = [continuation.sampling for continuation in continuations]
        chosen = choose(logits, samplings, [continuation.generator for continuation in continuations])
        ended = False
        for continuation, token_id in zip(continuations, chosen, strict=True):
            continuation.ids.append(token_id)
            if token_id == self.eos_id or len(continuation.ids) >= continuation.sampling.maximum_tokens:
                continuation.done = ended = True
        if ended:
            left = [row for row, continuation in enumerate(self.running) if not continuation.done]
            self.stepper.keep(left)
            self.running = [self.running[row] for row in left]


def stream_ids(model: Model, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> Iterator[int]:
    """New token ids one by one, up to and with `<eos>`. The prompt is read once; then one token a step."""
    continuations = Continuations(model, eos_id)
    continuation = continuations.add(prompt_ids, sampling)
    yield from continuation.ids
    while not continuation.done:
        continuations.step()
        yield continuation.ids[-1]


def continue_ids(model: Model, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> list[int]:
    """All new token ids; the same seed gives the same ones. prompt_ids begin with `<bos>`."""
    return list(stream_ids(model, prompt_ids, sampling, eos_id))


def continue_batch(
    model: Model, prompts: Sequence[list[int]], samplings: Sequence[Sampling], eos_id: int
) -> list[list[int]]:
    """What continue_ids gives for each prompt with its own settings, all at once: many times the tokens a second."""
    continuations = Continuations(model, eos_id)
    every = [continuations.add(ids, sampling) for ids, sampling in zip(prompts, samplings, strict=True)]
    while continuations.running:
        continuations.step()
    return [continuation.ids for continuation in every]
