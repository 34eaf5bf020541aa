"""Middleware that checks the Host header and the bearer token before a request reaches its route."""

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnlm.runtime.own_origin import LOOPBACK_NAMES, problem


def allowed_hosts(host: str, is_loopback: bool) -> list[str]:
    """Return the names that are allowed in a request's Host header.

    If the service listens on a loopback address, only loopback names are allowed, which prevents DNS rebinding. On a
    public address, any name is allowed, because the token protects the service.
    """
    return [*LOOPBACK_NAMES, f"[{host}]" if ":" in host else host] if is_loopback else ["*"]


class BearerToken:
    """Middleware that responds with 401 to requests without `Authorization: Bearer TOKEN`, except on open paths."""

    def __init__(self, app: ASGIApp, token: str, open_paths: frozenset[str]) -> None:
        self.app, self.token, self.open_paths = app, token.encode(), open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self.open_paths:
            await self.app(scope, receive, send)
            return
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        # The comparison takes constant time, so that its duration does not reveal how many characters match.
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self.token):
            await self.app(scope, receive, send)
            return
        detail = "expected the header Authorization: Bearer TOKEN with this service's token"
        await problem(401, detail, {"WWW-Authenticate": "Bearer"})(scope, receive, send)


class HeadAsGet:
    """Middleware that answers HEAD requests. Monitoring systems and proxies send them as health checks.

    The answer is that of a GET request without the body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, send_without_body)
