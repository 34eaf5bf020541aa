"""Prompts stepped together: one forward call gives each of up to GROUP prompts its next token.

A thread of its own goes round: prompts join and leave between two steps, each with its state, its generator and the
model it began with ("continuous batching": Yu et al. 2022, Orca).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlm.generation.sampling import Sampling, sample_next
from rnnlm.serving.loading import LoadedModel
from rnnlm.serving.messages import Finish

logger = logging.getLogger(__name__)

# Every forward call has this many rows, empty ones among them. Products of another shape are added up in another order,
# and a last bit could turn a draw: so a prompt's text would depend on who else is there.
GROUP = 8
PROMPT_PIECE = 256  # tokens of one prompt that are read between two steps: nobody waits for a long prompt


@dataclass(frozen=True)
class Drawn:
    """A new token, and what the model thought before any sampling."""

    token_id: int
    surprisal_nats: float
    alternatives: tuple[tuple[int, float], ...]  # (token id, probability), likeliest first


class BusyError(Exception):
    """Too many wait already, or the service is ending."""


class Generation:
    """One prompt on its way. `tell` is called in the batcher's thread: Drawn …, then a Finish or an exception."""

    def __init__(
        self,
        loaded: LoadedModel,
        prompt_ids: list[int],  # begin with <bos>
        sampling: Sampling,
        alternatives: int,
        deadline: float,  # of time.monotonic
        tell: Callable[[Drawn | Finish | Exception], None],
    ) -> None:
        self.loaded, self.sampling, self.alternatives = loaded, sampling, alternatives
        self.deadline, self.tell = deadline, tell
        self.generator = torch.Generator().manual_seed(sampling.seed)
        self.unread = prompt_ids
        stack = loaded.model.stack
        self.state = torch.zeros(1, len(stack.cells), stack.hidden_size)  # after all that was read
        self.last_id = self.loaded.model.pad_id
        self.count = 0  # tokens drawn
        self.over = False  # set by whoever no longer wants it, or by the batcher at its end

    def read(self, tokens: int) -> Tensor | None:
        """Read on in the prompt. At its end: the logits (V,) of the first token."""
        piece, self.unread = self.unread[:tokens], self.unread[tokens:]
        hidden, self.state = self.loaded.model.hidden(torch.tensor([piece]), self.state)
        return None if self.unread else self.loaded.model.logits(hidden[0, -1])

    def draw(self, logits: Tensor) -> None:
        """logits: (V,) → the next token, told; and the end, if that is it."""
        self.last_id = sample_next(logits, self.sampling, self.generator)
        self.count += 1
        log_probabilities = logits.log_softmax(dim=-1)
        likeliest = log_probabilities.topk(self.alternatives)
        alternatives = zip(likeliest.indices.tolist(), likeliest.values.exp().tolist(), strict=True)
        self.tell(Drawn(self.last_id, -float(log_probabilities[self.last_id]), tuple(alternatives)))
        if self.last_id == self.loaded.tokenizer.eos_id:
            self.end("end")
        elif self.count == self.sampling.maximum_tokens:
            self.end("length")

    def end(self, how: Finish | Exception) -> None:
        self.over = True
        self.tell(how)


class Batcher:
    """submit() from any thread; start() before, close() at the end."""

    def __init__(self, maximum_running: int, maximum_waiting: int) -> None:
        self.maximum_running, self.maximum_waiting = maximum_running, maximum_waiting
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []
        self.steps = self.tokens = 0  # forward calls, and tokens they gave
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rnnlm-batcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._closed

    def submit(self, generation: Generation) -> None:
        """BusyError where the queue is full or the service ends."""
        with self._changed:
            if self._closed:
                raise BusyError("the service is ending")
            if len(self.waiting) + len(self.running) >= self.maximum_waiting + self.maximum_running:
                raise BusyError(f"{len(self.waiting)} prompts wait already; ask again later")
            self.waiting.append(generation)
            self._changed.notify()

    def close(self) -> None:
        """Take no more, drop what is left."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self.waiting or self.running or self._closed):
                    self._changed.wait()
                if self._closed:
                    break
                self._sweep()
                while self.waiting and len(self.running) < self.maximum_running:
                    self.running.append(self.waiting.popleft())
            self._step()
        for generation in (*self.waiting, *self.running):
            generation.end(BusyError("the service is ending"))

    def _sweep(self) -> None:
        """Those that are over leave; those out of time end."""
        now = time.monotonic()
        for generation in (*self.waiting, *self.running):
            if not generation.over and now >= generation.deadline:
                generation.end("time")
        self.running = [generation for generation in self.running if not generation.over]
        self.waiting = deque(generation for generation in self.waiting if not generation.over)

    @torch.inference_mode()
    def _step(self) -> None:
        """One more token for each prompt that has been read; a piece of one prompt that has not."""
        groups: dict[LoadedModel, list[Generation]] = {}  # after a swap two models are in use for a while
        for generation in self.running:
            if not generation.unread:
                groups.setdefault(generation.loaded, []).append(generation)
        for group in groups.values():
            for first in range(0, len(group), GROUP):
                self._attempt(group[first : first + GROUP], advance)
        reader = next((generation for generation in self.running if generation.unread), None)
        if reader is not None:
            self._attempt([reader], read_on)

    def _attempt(self, group: list[Generation], work: Callable[[list[Generation]], int]) -> None:
        """A failure ends these, not the thread."""
        try:
            drawn = work(group)
            self.tokens += drawn
            self.steps += 1 if drawn else 0
        except Exception as error:
            logger.exception("a step failed")
            for generation in group:
                if not generation.over:
                    generation.end(error)


def read_on(group: list[Generation]) -> int:
    """A piece of the prompt of the one in the group. Returns how many tokens were drawn: 0, or 1 at its end."""
    (generation,) = group
    logits = generation.read(PROMPT_PIECE)
    if logits is None:
        return 0
    generation.draw(logits)
    return 1


def advance(group: list[Generation]) -> int:
    """One step of up to GROUP prompts of one model. Returns how many tokens were drawn."""
    model = group[0].loaded.model
    token_ids = torch.full((GROUP, 1), model.pad_id)
    state = torch.zeros(GROUP, len(model.stack.cells), model.stack.hidden_size)
    for row, generation in enumerate(group):
        token_ids[row] = generation.last_id
        state[row : row + 1] = generation.state
    logits, state = model(token_ids, state)  # (GROUP, 1, V), (GROUP, L, H)
    for row, generation in enumerate(group):
        generation.state = state[row : row + 1]
        generation.draw(logits[row, -1])
    return len(group)
