"""What answers, apart from HTTP: the current model, the batcher, and texts to score in their turn."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator

from rnnlm.generation.sampling import Sampling
from rnnlm.serving.messages import Finish, Generated, GenerateRequest, Scored, ScoreRequest, Token
from rnnlm.serving.model_loader import Followed, LoadedModel
from rnnlm.serving.model_reloader import Keeper
from rnnlm.serving.request_batcher import Batcher, BusyError, Drawn, Generation
from rnnlm.serving.serving_config import ServingConfig
from rnnlm.serving.text_scorer import named, score_text
from rnnlm.serving.text_stream import GrowingText


class Service:
    def __init__(self, followed: Followed, config: ServingConfig) -> None:
        """Loads the model. ModelError, TrackingError where that fails."""
        self.config = config
        self.keeper = Keeper(followed, config.poll_seconds)
        self.batcher = Batcher(config.maximum_running, config.maximum_waiting)
        self.texts_waiting = self.texts_scored = 0
        self._scoring = asyncio.Lock()

    @property
    def current(self) -> LoadedModel:
        return self.keeper.current

    def start(self) -> None:
        self.keeper.start()
        self.batcher.start()

    def stop(self) -> None:
        self.keeper.stop()
        self.batcher.close()

    async def score(self, request: ScoreRequest) -> Scored:
        """One text at a time, in a thread: the prompts go on meanwhile.

        BusyError if its turn does not come, or the work is not done, within maximum_seconds. Cancelled, it leaves the
        queue at once, or stops before the next stretch of its text.
        """
        loaded, seconds = self.current, self.config.maximum_seconds
        deadline = time.monotonic() + seconds
        if self.texts_waiting > self.config.maximum_waiting:
            raise BusyError(f"{self.texts_waiting} texts wait already; ask again later")
        self.texts_waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._scoring.acquire()
        except TimeoutError:
            raise BusyError(f"its turn did not come within {seconds:g} s") from None
        finally:
            self.texts_waiting -= 1
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set():
                raise BusyError("nobody waits for it any more")
            if time.monotonic() >= deadline:
                raise BusyError(f"it was not scored within {seconds:g} s; send a shorter text")

        def ended(work: "asyncio.Future[Scored]") -> None:
            work.exception()  # retrieved, also where nobody waits for it
            self._scoring.release()  # not before: two texts would share the processor

        work = asyncio.get_running_loop().run_in_executor(None, score_text, loaded, request, check)
        work.add_done_callback(ended)
        try:
            scored = await asyncio.shield(work)
        finally:
            abandoned.set()
        self.texts_scored += 1
        return scored

    def begin(self, request: GenerateRequest) -> "Generating":
        """The prompt is on its way. BusyError where it cannot be."""
        return Generating(self, request)


class Generating:
    """A prompt on its way, seen from the event loop, with the model that was current when it began."""

    def __init__(self, service: Service, request: GenerateRequest) -> None:
        self.loaded = loaded = service.current
        self.prompt = request.prompt
        self.maximum_seconds = service.config.maximum_seconds
        self._events: asyncio.Queue[Drawn | Finish | Exception] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(event: Drawn | Finish | Exception) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(self._events.put_nowait, event)

        self._prompt_ids = loaded.tokenizer.encode(request.prompt)
        self._generation = Generation(
            loaded,
            [loaded.tokenizer.bos_id, *self._prompt_ids],
            Sampling(request.maximum_tokens, request.temperature, request.top_k, request.top_p, request.seed),
            request.alternatives,
            time.monotonic() + self.maximum_seconds,
            tell,
        )
        service.batcher.submit(self._generation)

    async def parts(self) -> AsyncGenerator[Token | Generated, None]:
        """Each token as it comes, at last the whole without its tokens. Left early, the prompt leaves the batch.

        BusyError where not one token came in time; whatever went wrong in the batcher.
        """
        growing, ids = GrowingText(self.loaded.tokenizer, self._prompt_ids), list[int]()
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, Exception):
                    raise event
                if not isinstance(event, Drawn):
                    break
                ids.append(event.token_id)
                yield Token(
                    text=growing.add(event.token_id),
                    token_id=event.token_id,
                    surprisal_nats=event.surprisal_nats,
                    alternatives=named(self.loaded, list(event.alternatives)),
                )
        finally:
            self._generation.over = True
        if not ids:
            raise BusyError(f"its turn did not come within {self.maximum_seconds:g} s")
        yield Generated(
            model=self.loaded.label,
            text=self.loaded.tokenizer.decode(ids).strip(),  # as `rnnlm generate` writes it
            finish=event,
            unknown_words=self.loaded.tokenizer.unknown_words(self.prompt),
            tokens=[],
        )

    def abandon(self) -> None:
        """Leave the batch, or the queue for it, before the next step."""
        self._generation.over = True

    async def whole(self) -> Generated:
        """All of parts() at once."""
        tokens: list[Token] = []
        async for part in self.parts():
            if isinstance(part, Generated):
                return part.model_copy(update={"tokens": tokens})
            tokens.append(part)
        raise AssertionError("parts() ends with the whole")
