"""ASGI middleware that checks the login and limits the size of request bodies, for servers of other programs."""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnlm.runtime.own_origin import problem

UNREAD = {"Connection": "close"}  # The rest of the body is not read, so the connection cannot be reused.
# The largest body of a request to Prefect or MLflow. A page with pictures or a batch of metrics needs a large body.
LARGEST_BODY_BYTES = 64 << 20
LONGEST_BODY_SECONDS = 300.0
WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")


class LoginFirst:
    """Middleware that responds with 401 to a request with a body but without a valid login, before it reads the body.

    Requests without a body are passed to the server, which requires the login for all pages that are not public.
    `accepts` returns True for the Authorization header of a valid login.
    """

    def __init__(self, app: ASGIApp, accepts: Callable[[str], Awaitable[bool]]) -> None:
        self.app, self.accepts = app, accepts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or await self.accepts(Headers(scope=scope).get("authorization", "")):
            await self.app(scope, receive, send)
        elif scope["method"] in WITHOUT_BODY:
            await self.app(scope, replayed(b"", receive), send)
        else:
            headers = {**UNREAD, "WWW-Authenticate": 'Basic realm="rnnlm"'}
            await problem(401, "expected the login of this server (HTTP Basic)", headers)(scope, receive, send)


def only(login: str) -> Callable[[str], Awaitable[bool]]:
    """Return a function for LoginFirst that accepts only the login USER:PASSWORD by HTTP Basic authentication."""

    async def accepts(authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        try:
            decoded = base64.b64decode(given.strip())
        except (binascii.Error, ValueError):
            return False
        # The comparison takes constant time, so that its duration does not reveal how many characters of the login
        # match.
        return scheme.lower() == "basic" and hmac.compare_digest(decoded, login.encode())

    return accepts


class BoundedBody:
    """Middleware that reads each request body completely, before the server gets the request.

    It responds with 413 to a body of more than maximum_bytes, and with 408 after maximum_seconds. Paths that begin with
    an item of `streamed` are excluded, because the server reads their bodies in small blocks.
    """

    def __init__(
        self, app: ASGIApp, maximum_bytes: int, maximum_seconds: float, streamed: tuple[str, ...] = ()
    ) -> None:
        self.app, self.maximum_bytes, self.maximum_seconds, self.streamed = (
            app,
            maximum_bytes,
            maximum_seconds,
            streamed,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(self.streamed):
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            async with asyncio.timeout(self.maximum_seconds):
                async for part in Request(scope, receive).stream():
                    body += part
                    if len(body) > self.maximum_bytes:
                        refused = problem(413, f"the body exceeds {self.maximum_bytes:,} bytes", UNREAD)
                        await refused(scope, receive, send)
                        return
        except ClientDisconnect:
            return
        except TimeoutError:
            refused = problem(408, f"the request was incomplete after {self.maximum_seconds:g} s", UNREAD)
            await refused(scope, receive, send)
            return
        await self.app(scope, replayed(bytes(body), receive), send)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI function `receive` that returns `body` once, and then waits for the client's disconnection."""
    unread = True

    async def replay() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
