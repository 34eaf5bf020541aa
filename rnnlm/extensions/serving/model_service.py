"""The service without HTTP: the current model, the batcher of prompts, and the queue of texts to score."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from rnnlm.extensions.serving.messages import (
    Explained,
    ExplainRequest,
    Finish,
    Generated,
    GenerateRequest,
    Scored,
    ScoredTexts,
    ScoreRequest,
    Span,
    Token,
)
from rnnlm.extensions.serving.model_loader import LoadedModel, ModelReference
from rnnlm.extensions.serving.model_reloader import ModelReloader
from rnnlm.extensions.serving.request_batcher import Batcher, BusyError, GenerationJob, SampledToken
from rnnlm.extensions.serving.serving_config import ServingConfig
from rnnlm.extensions.serving.text_scorer import explain_text, named_alternatives, score_request
from rnnlm.extensions.serving.text_stream import IncrementalDecoder
from rnnlm.generation.sampling import Sampling, text_sampling
from rnnlm.tokenizers.text_tokenizer import UNK, TextTokenizer

AnswerT = TypeVar("AnswerT")
# A function that a long computation calls regularly. It stops the computation by raising an exception.
Check = Callable[[], None]


class Service:
    def __init__(self, reference: ModelReference, config: ServingConfig) -> None:
        """Load the model. Raise ModelError or TrackingError if that fails."""
        self.config = config
        self.reloader = ModelReloader(reference, config.poll_seconds)
        self.batcher = Batcher(config.maximum_running, config.maximum_waiting)
        self.texts_waiting = self.texts_scored = 0
        self._scoring = asyncio.Lock()

    @property
    def current(self) -> LoadedModel:
        return self.reloader.current

    def start(self) -> None:
        self.reloader.start()
        self.batcher.start()

    def stop(self) -> None:
        self.reloader.stop()
        self.batcher.close()

    async def score(self, request: ScoreRequest) -> Scored | ScoredTexts:
        """Score a text or a list of texts. Raise BusyError under the conditions of in_turn()."""
        return await self.in_turn(lambda loaded, check: score_request(loaded, request, check), len(request.texts))

    async def explain(self, request: ExplainRequest) -> Explained:
        """Explain a text step by step. Raise BusyError under the conditions of in_turn()."""
        return await self.in_turn(lambda loaded, check: explain_text(loaded, request, check))

    async def in_turn(self, work_on_text: Callable[[LoadedModel, Check], AnswerT], text_count: int = 1) -> AnswerT:
        """Run `work_on_text` in a thread, so that the event loop continues. Only one such call runs at a time.

        Raise BusyError if waiting or working takes longer than maximum_seconds. If this coroutine is cancelled, the
        work leaves the queue, or stops before the next window or step of the text.
        """
        loaded, seconds = self.current, self.config.maximum_seconds
        deadline = time.monotonic() + seconds
        if self.texts_waiting > self.config.maximum_waiting:
            raise BusyError(f"{self.texts_waiting} texts are waiting already; retry later")
        self.texts_waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._scoring.acquire()
        except TimeoutError:
            raise BusyError(f"the request was not started within {seconds:g} s; retry later") from None
        finally:
            self.texts_waiting -= 1
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set():
                raise BusyError("the client has disconnected")
            if time.monotonic() >= deadline:
                raise BusyError(f"the text was not scored within {seconds:g} s; send less text")

        def ended(work: "asyncio.Future[AnswerT]") -> None:
            # The exception is retrieved, because asyncio would warn about it if no task awaits the work.
            work.exception()
            # The lock is released only after the work has ended, so that two texts do not compete for the processor.
            self._scoring.release()

        work = asyncio.get_running_loop().run_in_executor(None, work_on_text, loaded, check)
        work.add_done_callback(ended)
        try:
            answer = await asyncio.shield(work)
        finally:
            abandoned.set()
        self.texts_scored += text_count
        return answer

    def generate(
        self, request: GenerateRequest, prompt_ids: list[int] | None = None, loaded: LoadedModel | None = None
    ) -> "GenerationStream":
        """Submit a prompt. Raise BusyError if the queue is full.

        If `prompt_ids` are given, they replace the text of the prompt, and `loaded` must be the model whose tokenizer
        encoded them. Without `loaded`, the current model is used.
        """
        return GenerationStream(self, request, prompt_ids, loaded or self.current)


class GenerationStream:
    """A submitted prompt and the model that continues it, for use in the event loop."""

    def __init__(
        self, service: Service, request: GenerateRequest, prompt_ids: list[int] | None, loaded: LoadedModel
    ) -> None:
        self.loaded = loaded
        self.prompt = request.prompt
        self.maximum_seconds = service.config.maximum_seconds
        self._events: asyncio.Queue[SampledToken | Finish | Exception] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def on_event(event: SampledToken | Finish | Exception) -> None:
            with contextlib.suppress(RuntimeError):  # The call raises RuntimeError if the event loop is already closed.
                loop.call_soon_threadsafe(self._events.put_nowait, event)

        self._prompt_ids = loaded.tokenizer.encode(request.prompt) if prompt_ids is None else prompt_ids
        self._job = GenerationJob(
            loaded,
            [loaded.tokenizer.bos_id, *self._prompt_ids],
            text_sampling(
                Sampling(request.maximum_tokens, request.temperature, request.top_k, request.top_p, request.seed),
                loaded.tokenizer.unk_id,
                unknown=request.unknown,
            ),
            request.alternatives,
            time.monotonic() + self.maximum_seconds,
            on_event,
        )
        service.batcher.submit(self._job)

    async def parts(self) -> AsyncGenerator[Token | Generated, None]:
        """Yield each token, and at the end a Generated without tokens.

        Closing the generator removes the prompt from the batch. Raise BusyError if no token was sampled within the time
        limit. Errors of the batcher are raised again.
        """
        decoder, ids = IncrementalDecoder(self.loaded.tokenizer, self._prompt_ids), list[int]()
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, Exception):
                    raise event
                if not isinstance(event, SampledToken):
                    break
                ids.append(event.token_id)
                yield Token(
                    text=decoder.add(event.token_id),
                    token_id=event.token_id,
                    surprisal_nats=event.surprisal_nats,
                    alternatives=named_alternatives(self.loaded, list(event.alternatives)),
                )
        finally:
            self._job.over = True
        if not ids:
            raise BusyError(f"the request was not started within {self.maximum_seconds:g} s; retry later")
        yield Generated(
            model=self.loaded.label,
            # The text is the same as the text that `rnnlm generate` prints for these tokens.
            text=self.loaded.tokenizer.decode(ids).strip(),
            finish=event,
            unknown_words=self.loaded.tokenizer.unknown_words(self.prompt),
            unknown_spans=unknown_spans(self.loaded.tokenizer, self.prompt),
            tokens=[],
        )

    def abandon(self) -> None:
        """Remove the prompt from the batch or queue before the next step."""
        self._job.over = True

    async def result(self) -> Generated:
        """Return all results of parts() in one message."""
        tokens: list[Token] = []
        async for part in self.parts():
            if isinstance(part, Generated):
                return part.model_copy(update={"tokens": tokens})
            tokens.append(part)
        raise AssertionError("the last of parts() must be a Generated")


def unknown_spans(tokenizer: TextTokenizer, text: str) -> list[Span]:
    """Return the ranges of the text that the tokenizer reads as unknown words."""
    return [
        Span(start=start, end=end)
        for token_id, start, end in tokenizer.spans(text)
        if token_id == UNK and text[start:end] != tokenizer.unknown_literal
    ]
