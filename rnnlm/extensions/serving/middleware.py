"""Middleware in front of the routes: allowed hosts, the bearer token, limits on request bodies."""

import asyncio
import hmac

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnlm.runtime.own_origin import LOOPBACK_NAMES, problem

UNREAD = {"Connection": "close"}  # the rest of the body is not read, so the connection cannot be reused


def allowed_hosts(host: str, is_loopback: bool) -> list[str]:
    """The names that a request's Host header may have.

    On loopback only loopback's own names, which defeats DNS rebinding. A public address may have any name; there the
    token keeps others out.
    """
    return [*LOOPBACK_NAMES, f"[{host}]" if ":" in host else host] if is_loopback else ["*"]


class BearerToken:
    """Answer 401 without `Authorization: Bearer TOKEN`, except on the open paths."""

    def __init__(self, app: ASGIApp, token: str, open_paths: frozenset[str]) -> None:
        self.app, self.token, self.open_paths = app, token.encode(), open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self.open_paths:
            await self.app(scope, receive, send)
            return
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        # In constant time: the duration must not reveal how many characters match.
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self.token):
            await self.app(scope, receive, send)
            return
        detail = "expected the header Authorization: Bearer TOKEN with this service's token"
        await problem(401, detail, {"WWW-Authenticate": "Bearer"})(scope, receive, send)


class BoundedBody:
    """Read each body before the routes do: 413 beyond maximum_bytes, 408 after maximum_seconds."""

    def __init__(self, app: ASGIApp, maximum_bytes: int, maximum_seconds: float) -> None:
        self.app, self.maximum_bytes, self.maximum_seconds = app, maximum_bytes, maximum_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
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
            refused = problem(408, f"request incomplete after {self.maximum_seconds:g} s", UNREAD)
            await refused(scope, receive, send)
            return
        unread = True

        async def replay() -> Message:
            nonlocal unread
            if unread:
                unread = False
                return {"type": "http.request", "body": bytes(body), "more_body": False}
            return await receive()  # eventually: the client has disconnected

        await self.app(scope, replay, send)
