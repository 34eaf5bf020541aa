"""The part of OpenAI's completions API that applies to a language model that follows no instructions.

OpenAI's clients work with `base_url=http://…/v1`. Prompts are texts or lists of token ids. With `echo` and `logprobs`,
the answer includes the log-probabilities of the prompt's tokens. Fields of the API that this service does not support
are ignored, unless they would change the text.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Literal

from fastapi import HTTPException
from pydantic import BaseModel

from rnnlm.evaluation.text_tokens import spelling
from rnnlm.extensions.serving.completion_request import MAXIMUM_CHOICES, CompletionRequest
from rnnlm.extensions.serving.messages import GenerateRequest, Token
from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.extensions.serving.model_service import GenerationStream, Service
from rnnlm.extensions.serving.text_scorer import ScoredId, score_ids
from rnnlm.extensions.serving.text_stream import IncrementalDecoder

SEEDS = 2**63
FINISH_REASONS: dict[str, Literal["stop", "length"]] = {"end": "stop", "length": "length", "time": "length"}


class Logprobs(BaseModel):
    """Lists with one entry per token. The `<bos>` of a prompt is left out."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    text_offset: list[int] = []


class Choice(BaseModel):
    index: int
    text: str
    logprobs: Logprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class ModelEntry(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "rnnlm"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelEntry]


def served_names(loaded: LoadedModel) -> list[str]:
    """Return the served model's label and, if it is a registered version, its registered name."""
    registered = loaded.label.startswith("models:/")
    return [loaded.label.split("/")[1], loaded.label] if registered else [loaded.label]


def served_models(loaded: LoadedModel) -> ModelList:
    return ModelList(data=[ModelEntry(id=name) for name in served_names(loaded)])


def served_model(loaded: LoadedModel, name: str) -> ModelEntry:
    """Return the entry of the served model. Raise HTTPException for the name of another model."""
    check_served(loaded, name)
    return ModelEntry(id=name)


def check_served(loaded: LoadedModel, name: str) -> None:
    names = served_names(loaded)
    if name not in names:
        raise HTTPException(404, f"this service serves the model {names[-1]}, not {name}; see /v1/models")


class ChoiceWriter:
    """A writer of one choice: the prompt if `echo` is set, and the model's text up to a stop string."""

    def __init__(
        self, service: Service, loaded: LoadedModel, request: CompletionRequest, prompt: str | list[int], index: int
    ) -> None:
        """Prepare a choice and submit its prompt.

        Raise HTTPException for token ids that the model does not have, and BusyError if the queue is full.
        """
        self.loaded = loaded
        self.service, self.request, self.index = service, request, index
        if isinstance(prompt, str):
            self.prompt_ids = loaded.tokenizer.encode(prompt)
        else:
            if any(token_id >= loaded.tokenizer.vocabulary_size for token_id in prompt):
                raise HTTPException(422, f"token ids must be below {loaded.tokenizer.vocabulary_size}")
            self.prompt_ids = [token_id for token_id in prompt if token_id != loaded.tokenizer.bos_id]
        self.prompt = prompt if isinstance(prompt, str) else loaded.tokenizer.decode(self.prompt_ids)
        self.written = 0  # The number of tokens generated so far.
        self.length = 0  # The number of characters of all tokens so far.
        seed = secrets.randbelow(SEEDS) if request.seed is None else request.seed
        self.stream: GenerationStream | None = None
        if request.max_tokens:
            wanted = GenerateRequest(
                prompt="",
                maximum_tokens=request.max_tokens,
                temperature=request.temperature,
                top_k=0,
                top_p=request.top_p,
                seed=(seed + index) % SEEDS,
                alternatives=request.logprobs or 0,
            )
            self.stream = service.generate(wanted, self.prompt_ids, loaded)

    async def parts(self) -> AsyncGenerator[Choice, None]:
        """Yield the choice in parts. The last part contains the reason why the text ended."""
        if self.request.echo:
            yield Choice(index=self.index, text=self.prompt, logprobs=await self.prompt_logprobs())
        if self.stream is None:
            yield Choice(index=self.index, text="", finish_reason="length")
            return
        held = StopText(self.request.stops)
        async with contextlib.aclosing(self.stream.parts()) as parts:
            async for part in parts:
                if not isinstance(part, Token):
                    yield self.part(held.rest, finish_reason=FINISH_REASONS[part.finish])
                    return
                self.written += 1
                text = held.add(part.text)
                if held.stopped:
                    yield self.part(text, part, finish_reason="stop")
                    return
                yield self.part(text, part)

    def part(
        self, text: str, token: Token | None = None, finish_reason: Literal["stop", "length"] | None = None
    ) -> Choice:
        logprobs = None
        if token is not None and self.request.logprobs is not None:
            top = {one.text: math.log(max(one.probability, 1e-45)) for one in token.alternatives}
            top[spelling(self.loaded.tokenizer, token.token_id)] = -token.surprisal_nats
            logprobs = self.logprobs(token.text, -token.surprisal_nats, top)
        return Choice(index=self.index, text=text, logprobs=logprobs, finish_reason=finish_reason)

    def logprobs(self, text: str, log_probability: float, top: dict[str, float]) -> Logprobs:
        offset, self.length = self.length, self.length + len(text)
        return Logprobs(tokens=[text], token_logprobs=[log_probability], top_logprobs=[top], text_offset=[offset])

    async def prompt_logprobs(self) -> Logprobs | None:
        if self.request.logprobs is None:
            return None
        count = self.request.logprobs
        scores: list[ScoredId] = await self.service.in_turn(
            lambda loaded, check: score_ids(self.loaded, self.prompt_ids, count, check)
        )
        decoder = IncrementalDecoder(self.loaded.tokenizer)
        return joined(
            [
                self.logprobs(
                    decoder.add(token_id),
                    score.log_probability,
                    {spelling(self.loaded.tokenizer, other): value for other, value in score.top},
                )
                for token_id, score in zip(self.prompt_ids, scores, strict=True)
            ]
        )

    def abandon(self) -> None:
        if self.stream is not None:
            self.stream.abandon()


class StopText:
    """A text that ends at the first stop string. Characters that may begin a stop string are held back."""

    def __init__(self, stops: list[str]) -> None:
        self.stops, self.rest, self.stopped = stops, "", False

    def add(self, text: str) -> str:
        """Add text, and return the part of it that can be sent now, with earlier characters that were held back."""
        self.rest += text
        found = [place for place in (self.rest.find(stop) for stop in self.stops) if place >= 0]
        if found:
            self.stopped = True
            return self.rest[: min(found)]
        held = max((len(stop) - 1 for stop in self.stops), default=0)
        shown = self.rest[: max(0, len(self.rest) - held)]
        self.rest = self.rest[len(shown) :]
        return shown


def joined(parts: list[Logprobs]) -> Logprobs:
    fields = Logprobs.model_fields
    return Logprobs(**{name: [entry for part in parts for entry in getattr(part, name)] for name in fields})


def writers(service: Service, request: CompletionRequest) -> list[ChoiceWriter]:
    """Submit all choices of a request to the current model, and return a writer for each.

    Raise HTTPException if another model is requested or there are too many choices.
    """
    loaded = service.current
    if request.model:
        check_served(loaded, request.model)
    prompts = [prompt for prompt in request.prompts for _ in range(request.n)]
    if len(prompts) > MAXIMUM_CHOICES:
        raise HTTPException(422, f"expected at most {MAXIMUM_CHOICES} choices in one request")
    made: list[ChoiceWriter] = []
    try:
        for index, prompt in enumerate(prompts):
            made.append(ChoiceWriter(service, loaded, request, prompt, index))
    except BaseException:
        for writer in made:
            writer.abandon()
        raise
    return made


def empty_completion(made: list[ChoiceWriter]) -> Completion:
    label = made[0].loaded.label
    return Completion(id=f"cmpl-{secrets.token_hex(12)}", created=int(time.time()), model=label, choices=[])


async def complete(made: list[ChoiceWriter]) -> Completion:
    """Return the whole answer. If this coroutine is cancelled, the prompts are removed from the batch."""
    tasks = [asyncio.create_task(whole_choice(writer)) for writer in made]
    try:
        choices = await asyncio.gather(*tasks)
    finally:
        for task, writer in zip(tasks, made, strict=True):
            task.cancel()
            writer.abandon()
    return empty_completion(made).model_copy(update={"choices": list(choices), "usage": usage_of(made)})


def usage_of(made: list[ChoiceWriter]) -> Usage:
    """Return the number of tokens in all choices, which must be complete."""
    prompt_tokens, written = sum(len(one.prompt_ids) for one in made), sum(one.written for one in made)
    return Usage(prompt_tokens=prompt_tokens, completion_tokens=written, total_tokens=prompt_tokens + written)


async def whole_choice(writer: ChoiceWriter) -> Choice:
    parts = [part async for part in writer.parts()]
    logprobs = [part.logprobs for part in parts if part.logprobs is not None]
    return parts[-1].model_copy(
        update={"text": "".join(part.text for part in parts), "logprobs": joined(logprobs) if logprobs else None}
    )


async def completion_events(made: list[ChoiceWriter]) -> AsyncGenerator[Completion, None]:
    """Yield a Completion for each part of each choice and, if requested, a last Completion with the usage."""
    completion = empty_completion(made)
    try:
        for writer in made:
            async with contextlib.aclosing(writer.parts()) as parts:
                async for part in parts:
                    yield completion.model_copy(update={"choices": [part]})
        if made[0].request.stream_options.include_usage:
            yield completion.model_copy(update={"usage": usage_of(made)})
    finally:
        for writer in made:
            writer.abandon()
