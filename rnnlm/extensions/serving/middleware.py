"""Middleware in front of the routes: allowed hosts and the bearer token."""

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnlm.runtime.own_origin import LOOPBACK_NAMES, problem


def allowed_hosts(host: str, is_loopback: bool) -> list[str]:
    """Return the names that a request's Host header may have.

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


class HeadAsGet:
    """Answer HEAD as GET, without the body: monitors and proxies ask so whether a service is there."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, send_without_body)
