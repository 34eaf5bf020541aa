"""The HTTP routes of the service. model_service.py computes the answers, and middleware.py guards the routes."""

import asyncio
import contextlib
import importlib.metadata
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from rnnlm.extensions.serving.api_page import api_page
from rnnlm.extensions.serving.completion_request import CompletionRequest
from rnnlm.extensions.serving.completions import (
    Completion,
    ModelEntry,
    ModelList,
    complete,
    completion_events,
    served_model,
    served_models,
    writers,
)
from rnnlm.extensions.serving.messages import (
    Explained,
    ExplainRequest,
    Generated,
    GenerateRequest,
    Health,
    ModelFacts,
    Problem,
    Readiness,
    Scored,
    ScoredTexts,
    ScoreRequest,
)
from rnnlm.extensions.serving.middleware import BearerToken, HeadAsGet, allowed_hosts
from rnnlm.extensions.serving.model_service import Service
from rnnlm.extensions.serving.prometheus import MeasuringMiddleware, Metrics
from rnnlm.extensions.serving.request_batcher import BusyError
from rnnlm.runtime.login_first import BoundedBody
from rnnlm.runtime.own_origin import OwnOrigin

logger = logging.getLogger(__name__)
PAGE = Path(__file__).parent / "pages"
# Scripts are loaded only from this host, and inline scripts are forbidden, so that text by a model or a user cannot run
# as a script.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
CLIENT_CLOSED = 499  # The non-standard status that nginx logs if a client has closed the connection.
# Paths that can be requested without a token, because they reveal no text.
PAGES = frozenset(("/", "/serve.js", "/docs", "/openapi.json", "/health", "/ready"))
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "invalid JSON, or a Host header that is not this service's"},
    401: {"model": Problem, "description": "missing or wrong token"},
    403: {"model": Problem, "description": "sent by another site's page"},
    408: {"model": Problem, "description": "the request did not arrive in time"},
    413: {"model": Problem, "description": "body too large"},
    503: {"model": Problem, "description": "too busy; retry after Retry-After seconds"},
}
# Example requests with their titles. They are in the OpenAPI document, and the API page shows commands for them.
GENERATE_EXAMPLES: dict[str, Any] = {
    "a text": {"value": {"prompt": "the", "maximum_tokens": 20, "temperature": 0.8, "seed": 1}},
    "token by token": {"value": {"prompt": "the", "stream": True}},
}
SCORE_EXAMPLES: dict[str, Any] = {
    "a text": {"value": {"text": "the end", "alternatives": 3}},
    "several texts": {"value": {"text": ["the end", "the beginning"]}},
}
EXPLAIN_EXAMPLES: dict[str, Any] = {"a text": {"value": {"text": "the end"}}}
COMPLETION_EXAMPLES: dict[str, Any] = {
    "a text": {"value": {"prompt": "the", "max_tokens": 20, "seed": 1}},
    "scores of a text": {"value": {"prompt": "the end", "max_tokens": 0, "echo": True, "logprobs": 3}},
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}


def build_app(service: Service) -> FastAPI:
    """Build the application of a service. It starts and stops the service's threads."""
    config = service.config

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(
        title="rnnlm",
        description="Continue, score and explain text with a recurrent language model.",
        version=importlib.metadata.version("rnnlm"),
        # FastAPI's own API pages load scripts from a CDN. The service's API page also works offline.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        # The dependency only declares the token in the OpenAPI document, and does not check it.
        dependencies=[Depends(HTTPBearer(auto_error=False))] if config.token else [],
    )
    metrics = Metrics(service)
    add_model_routes(app, service)
    add_information_routes(app, service, metrics)
    app.add_exception_handler(RequestValidationError, refused)
    app.add_exception_handler(BusyError, busy)
    # The exception class of Starlette is given, because it is also raised for unknown routes.
    app.add_exception_handler(StarletteHTTPException, not_served)
    app.add_exception_handler(Exception, failed)
    # The middleware that is added last handles a request first.
    app.add_middleware(HeadAsGet)
    app.add_middleware(BoundedBody, maximum_bytes=config.maximum_body_bytes, maximum_seconds=config.maximum_seconds)
    if config.token:
        app.add_middleware(BearerToken, token=config.token.get_secret_value(), open_paths=PAGES)
    elif config.is_loopback:
        # If a token is set, the origin is not checked, because pages of other sites do not have the token.
        app.add_middleware(OwnOrigin)
    names = allowed_hosts(config.host, config.is_loopback)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    paths = frozenset(route.path for route in app.routes if isinstance(route, Route))
    app.add_middleware(MeasuringMiddleware, metrics=metrics, paths=paths)
    return app


def add_model_routes(app: FastAPI, service: Service) -> None:
    @app.post("/generate", response_model=Generated, responses=PROBLEMS | STREAMED)
    async def generate(
        request: Annotated[GenerateRequest, Body(openapi_examples=GENERATE_EXAMPLES)], client: Request
    ) -> Any:
        """Continue a prompt. With `stream`, send an event for each token."""
        stream = service.generate(request)
        if request.stream:
            return StreamingResponse(events(stream.parts()), media_type="text/event-stream")
        try:
            return await while_connected(client, stream.result())
        finally:
            stream.abandon()

    @app.post("/score", response_model=Scored | ScoredTexts, responses=PROBLEMS)
    async def score(request: Annotated[ScoreRequest, Body(openapi_examples=SCORE_EXAMPLES)], client: Request) -> Any:
        """Score a text, token by token.

        For a list of texts, return a list of scores in the same order in the field `texts`.
        """
        return await while_connected(client, service.score(request))

    @app.post("/explain", response_model=Explained, responses=PROBLEMS)
    async def explain(
        request: Annotated[ExplainRequest, Body(openapi_examples=EXPLAIN_EXAMPLES)], client: Request
    ) -> Any:
        """Explain how the model reads a short text.

        For each step, return the token that the model reads, the token to predict, the state and the probabilities.
        """
        return await while_connected(client, service.explain(request))

    @app.post("/v1/completions", response_model=Completion, responses=PROBLEMS | STREAMED | {404: {"model": Problem}})
    async def completions(
        request: Annotated[CompletionRequest, Body(openapi_examples=COMPLETION_EXAMPLES)], client: Request
    ) -> Any:
        """Continue or score prompts with OpenAI's completions API."""
        made = writers(service, request)
        if request.stream:
            return StreamingResponse(
                events(completion_events(made), end="data: [DONE]\n\n"), media_type="text/event-stream"
            )
        return await while_connected(client, complete(made))

    @app.get("/v1/models", responses={401: PROBLEMS[401]})
    async def models() -> ModelList:
        """Return a list with the served model in the format of OpenAI's API."""
        return served_models(service.current)

    @app.get("/v1/models/{name:path}", responses={401: PROBLEMS[401], 404: {"model": Problem}})
    async def one_model(name: str) -> ModelEntry:
        """Return the entry of the served model in the format of OpenAI's API."""
        return served_model(service.current, name)


async def while_connected(client: Request, work: Coroutine[Any, Any, BaseModel]) -> Response:
    """Return the result of `work` as a response. Cancel `work` as soon as the client disconnects."""
    task, gone = asyncio.create_task(work), asyncio.create_task(disconnected(client))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            # The result is serialized here, because FastAPI would first validate it again, field by field.
            text = await asyncio.to_thread(task.result().model_dump_json)
            return Response(text, media_type="application/json")
        # Only the metrics count this response, because the client has disconnected.
        return Response(status_code=CLIENT_CLOSED)
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def disconnected(client: Request) -> None:
    """Return as soon as the client has disconnected. The request's body must have been read already."""
    while (await client.receive())["type"] != "http.disconnect":
        pass


async def events(parts: AsyncGenerator[BaseModel, None], end: str = "") -> AsyncIterator[str]:
    """Yield a server-sent event `data: {…}` for each part. An error while sending becomes an event with a Problem."""
    try:
        async with contextlib.aclosing(parts):
            async for part in parts:
                yield f"data: {part.model_dump_json()}\n\n"
        yield end
    except BusyError as error:
        yield f"data: {Problem(detail=str(error)).model_dump_json()}\n\n"
    except Exception:
        logger.exception("a streamed response failed")
        yield f"data: {Problem(detail='internal error').model_dump_json()}\n\n"


def add_information_routes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    secured = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "X-Content-Type-Options": "nosniff"}

    @app.get("/health")
    async def health() -> Health:
        """Report that the process is running."""
        return Health()

    @app.get("/ready", responses={503: PROBLEMS[503]})
    async def ready() -> Readiness:
        """Report whether the service is ready and which model it serves."""
        if not service.batcher.is_alive:
            raise HTTPException(503, "the batcher has stopped")
        current, reloader = service.current, service.reloader
        if not reloader.is_alive:
            raise HTTPException(503, "the thread that reloads the model has stopped")
        return Readiness(
            model=current.label, vocabulary_size=current.tokenizer.vocabulary_size, following_problem=reloader.problem
        )

    @app.get("/model", responses={401: PROBLEMS[401]})
    async def model() -> ModelFacts:
        """Describe the model by its corpus, size and test scores, with a prompt to try it."""
        return service.current.facts

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, 401: PROBLEMS[401]})
    async def metrics_text() -> Response:
        """Return metrics for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(PAGE / "index.html", headers=secured)

    @app.get("/serve.js", include_in_schema=False)
    async def script() -> Response:
        return FileResponse(PAGE / "serve.js", headers=secured)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        return HTMLResponse(api_page(app.openapi(), address), headers=secured)


async def refused(request: Request, error: Exception) -> Response:
    """Return a response with status 422 that does not repeat the input.

    The input may be long, secret, or not valid JSON (for example NaN).
    """
    assert isinstance(error, RequestValidationError)
    detail = [{name: problem[name] for name in ("loc", "msg", "type")} for problem in error.errors()]
    return problem(request, 422, detail, "; ".join(f"{field_of(one['loc'])}: {one['msg']}" for one in detail))


def field_of(place: tuple[int | str, ...]) -> int | str:
    """Return the field of the body that caused the problem, or else the last part of the problem's location."""
    return place[1] if place[0] == "body" and len(place) > 1 and isinstance(place[1], str) else place[-1]


async def busy(request: Request, error: Exception) -> Response:
    return problem(request, 503, str(error), str(error), {"Retry-After": "1"})


async def failed(request: Request, error: Exception) -> Response:
    return problem(request, 500, "internal error", "internal error")


async def not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return problem(request, error.status_code, error.detail, str(error.detail), dict(error.headers or {}))


def problem(
    request: Request, status: int, detail: Any, message: str, headers: dict[str, str] | None = None
) -> Response:
    """Return an error response.

    On OpenAI's paths, the message is also in the field `error`, as OpenAI's clients expect.
    """
    body = {"detail": detail}
    if request.url.path.startswith("/v1/"):
        kind = "invalid_request_error" if status < 500 else "server_error"
        body["error"] = {"message": message, "type": kind, "param": None, "code": None}
    # The JSON is ASCII, because an unknown field's name may contain an unpaired surrogate, which UTF-8 cannot encode.
    return Response(json.dumps(body), status_code=status, headers=headers, media_type="application/json")
