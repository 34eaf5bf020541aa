"""Prompts that come and go, continued together by generation's loop in a thread of its own.

Between two steps prompts join and leave, each with its settings, its time limit and the model it began with
("continuous batching": Yu et al. 2022, Orca).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rnnlm.generation.sampling import Continuation, Continuations, Sampling, begin
from rnnlm.serving.messages import Finish
from rnnlm.serving.model_loader import LoadedModel

logger = logging.getLogger(__name__)
ROWS_IN_PRODUCTS = 8  # or 16, 24, …: a prompt's text must not depend on who else is there. See Continuations


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
        self.loaded, self.alternatives, self.deadline, self.tell = loaded, alternatives, deadline, tell
        self.continuation = begin(prompt_ids, sampling, self.notice)
        self.over = False  # set by whoever no longer wants it, or by the batcher at its end

    def notice(self, continuation: Continuation, logits: Tensor) -> None:
        """Tell the new token, and the end if that is it."""
        token_id = continuation.ids[-1]
        log_probabilities = logits.log_softmax(dim=-1)
        alternatives: tuple[tuple[int, float], ...] = ()
        if self.alternatives:
            likeliest = log_probabilities.topk(self.alternatives)
            alternatives = tuple(zip(likeliest.indices.tolist(), likeliest.values.exp().tolist(), strict=True))
        self.tell(Drawn(token_id, -float(log_probabilities[token_id]), alternatives))
        if continuation.done:
            self.end("end" if token_id == self.loaded.tokenizer.eos_id else "length")

    def end(self, how: Finish | Exception) -> None:
        self.over = True
        self.tell(how)


class Batcher:
    """submit() from any thread; start() before, close() at the end."""

    def __init__(self, maximum_running: int, maximum_waiting: int) -> None:
        self.maximum_running, self.maximum_waiting = maximum_running, maximum_waiting
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []
        self.steps = self.tokens = 0  # calls of a model, and tokens they gave
        self._together: dict[LoadedModel, Continuations] = {}  # after a swap two models are in use for a while
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

    @torch.inference_mode()
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
        """Those out of time end; those that are over leave, and models that nobody uses any more with them."""
        now = time.monotonic()
        for generation in (*self.waiting, *self.running):
            if not generation.over and now >= generation.deadline:
                generation.end("time")
            if generation.over:  # asked once: who leaves in this moment is seen next time
                generation.continuation.done = True
        for continuations in self._together.values():
            continuations.let_go()
        self.running = [generation for generation in self.running if not generation.continuation.done]
        self.waiting = deque(generation for generation in self.waiting if not generation.continuation.done)
        used = {generation.loaded for generation in self.running}
        self._together = {loaded: those for loaded, those in self._together.items() if loaded in used}

    def _step(self) -> None:
        """One more token for each prompt that has been read; a piece of one prompt that has not."""
        for loaded, continuations in self._together.items():
            if continuations.running:
                theirs = [one for one in self.running if one.loaded is loaded and not one.continuation.unread]
                self._attempt(theirs, partial(self._advance, continuations))
        # One prompt and a piece of it: nobody waits for a long one.
        reader = next((generation for generation in self.running if generation.continuation.unread), None)
        if reader is not None:
            self._attempt([reader], partial(self._read, reader))

    def _attempt(self, generations: list[Generation], work: Callable[[], None]) -> None:
        """A failure ends these, not the thread."""
        try:
            work()
        except Exception as error:
            logger.exception("a step failed")
            for generation in generations:
                if not generation.over:
                    generation.end(error)

    def _advance(self, continuations: Continuations) -> None:
        drawn = len(continuations.running)
        continuations.step()
        self.steps, self.tokens = self.steps + 1, self.tokens + drawn

    def _read(self, generation: Generation) -> None:
        """At the prompt's end the first token is drawn."""
        loaded = generation.loaded
        if loaded not in self._together:
            self._together[loaded] = Continuations(loaded.weights, loaded.tokenizer.eos_id, ROWS_IN_PRODUCTS)
        self._together[loaded].read(generation.continuation)
        if generation.continuation.ids:
            self.steps, self.tokens = self.steps + 1, self.tokens + 1
