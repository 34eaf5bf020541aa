"""Continuous batching (Yu et al. 2022, Orca): one thread continues all current prompts together.

Prompts enter and leave the batch between two steps. Each prompt has its own settings, time limit and model.
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

from rnnlm.extensions.serving.messages import Finish
from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.generation.sampling import Continuation, Continuations, Sampling, new_continuation

logger = logging.getLogger(__name__)
# The number of rows of each matrix product is padded to a multiple of this number, so that the text that is generated
# for a prompt does not depend on the other prompts in the batch (see Continuations).
ROWS_IN_PRODUCTS = 8


@dataclass(frozen=True)
class SampledToken:
    """A new token with the model's probabilities before any sampling."""

    token_id: int
    surprisal_nats: float
    alternatives: tuple[tuple[int, float], ...]  # Pairs of token id and probability, the most probable first.


class BusyError(Exception):
    """The exception that is raised if the queue is full, the time limit is reached, or the service is shutting down."""


class GenerationJob:
    """A prompt to continue.

    The batcher's thread calls on_event with each SampledToken, and at the end with a Finish or an exception.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompt_ids: list[int],  # The token ids of the prompt, beginning with <bos>.
        sampling: Sampling,
        alternatives: int,
        deadline: float,  # The time limit of the job, as a value of time.monotonic.
        on_event: Callable[[SampledToken | Finish | Exception], None],
    ) -> None:
        self.loaded, self.alternatives, self.deadline, self.on_event = loaded, alternatives, deadline, on_event
        self.continuation = new_continuation(prompt_ids, sampling, self.on_token)
        self.over = False  # True if the client has disconnected or the batcher has ended the job.

    def on_token(self, continuation: Continuation, logits: Tensor) -> None:
        """Report the new token, and the end of the text if the token is the last one."""
        token_id = continuation.ids[-1]
        log_probabilities = logits.log_softmax(dim=-1)
        alternatives: tuple[tuple[int, float], ...] = ()
        if self.alternatives:
            top = log_probabilities.topk(min(self.alternatives, len(log_probabilities)))
            alternatives = tuple(zip(top.indices.tolist(), top.values.exp().tolist(), strict=True))
        self.on_event(SampledToken(token_id, -float(log_probabilities[token_id]), alternatives))
        if continuation.done:
            self.end("end" if token_id == self.loaded.tokenizer.eos_id else "length")

    def end(self, reason: Finish | Exception) -> None:
        self.over = True
        self.on_event(reason)


class Batcher:
    """The batcher of all prompts. Call start() first, submit() from any thread, and close() at the end."""

    def __init__(self, maximum_running: int, maximum_waiting: int) -> None:
        self.maximum_running, self.maximum_waiting = maximum_running, maximum_waiting
        self.waiting: deque[GenerationJob] = deque()
        self.running: list[GenerationJob] = []
        self.steps = self.tokens = 0  # The number of model calls that sampled tokens, and the number of sampled tokens.
        # The prompts of each model. After a reload, the old and the new model are both used for a while.
        self._batches: dict[LoadedModel, Continuations] = {}
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rnnlm-batcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._closed

    def submit(self, job: GenerationJob) -> None:
        """Queue a job. Raise BusyError if the queue is full or the service is shutting down."""
        with self._changed:
            if self._closed:
                raise BusyError("the service is shutting down")
            if len(self.waiting) + len(self.running) >= self.maximum_waiting + self.maximum_running:
                raise BusyError(f"{len(self.waiting)} prompts are waiting already; retry later")
            self.waiting.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Refuse new jobs and end the remaining ones with BusyError."""
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
        for job in (*self.waiting, *self.running):
            job.end(BusyError("the service is shutting down"))

    def _sweep(self) -> None:
        """End jobs whose time limit is reached, and remove ended jobs and models without jobs."""
        now = time.monotonic()
        for job in (*self.waiting, *self.running):
            if not job.over and now >= job.deadline:
                job.end("time")
            # The flag is read only once, so that a client that disconnects later is handled by the next sweep.
            if job.over:
                job.continuation.done = True
        for continuations in self._batches.values():
            continuations.remove_done()
        self.running = [job for job in self.running if not job.continuation.done]
        self.waiting = deque(job for job in self.waiting if not job.continuation.done)
        used = {job.loaded for job in self.running}
        self._batches = {loaded: batch for loaded, batch in self._batches.items() if loaded in used}

    def _step(self) -> None:
        """Sample a token for each prompt that was read completely, and read a part of one other prompt."""
        for loaded, continuations in self._batches.items():
            if continuations.running:
                jobs = [job for job in self.running if job.loaded is loaded and not job.continuation.unread]
                self._attempt(jobs, partial(self._advance, continuations))
        # Each step reads only a part of one prompt, so that a long prompt does not delay the others.
        reader = next((job for job in self.running if job.continuation.unread), None)
        if reader is not None:
            self._attempt([reader], partial(self._read, reader))

    def _attempt(self, jobs: list[GenerationJob], work: Callable[[], None]) -> None:
        """Do the work for some jobs. If it fails, end only these jobs and continue the thread."""
        try:
            work()
        except Exception as error:
            logger.exception("a step of generation failed; its requests end with an error")
            for job in jobs:
                if not job.over:
                    job.end(error)

    def _advance(self, continuations: Continuations) -> None:
        rows = len(continuations.running)
        continuations.step()
        self.steps, self.tokens = self.steps + 1, self.tokens + rows

    def _read(self, job: GenerationJob) -> None:
        """Read the next part of the prompt. After its last part, sample the first token."""
        loaded = job.loaded
        if loaded not in self._batches:
            self._batches[loaded] = Continuations(loaded.weights, loaded.tokenizer.eos_id, ROWS_IN_PRODUCTS)
        self._batches[loaded].read(job.continuation)
        if job.continuation.ids:
            self.steps, self.tokens = self.steps + 1, self.tokens + 1
