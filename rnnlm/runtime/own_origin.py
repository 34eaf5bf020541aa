"""ASGI middleware that keeps other sites' pages away from a service on this machine."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class OwnOrigin:
    """Answer 403 to a request that a browser sends for another site's page. Of programs without pages nothing is asked.

    A browser names the page's site in the header Origin, also in handshakes of WebSockets. Names of loopback are equal.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] in ("http", "websocket") else Headers()
        origin = headers.get("origin")
        if origin is None or same_site(origin, headers.get("host", "")):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: status 403
        else:
            refused = problem(403, f"this service answers its own pages, not those of {origin}")
            await refused(scope, receive, send)


def same_site(origin: str, host: str) -> bool:
    """Return True if a page of the site `origin` may use the service that it calls `host`, both with their ports."""
    try:
        page, service = urlsplit(origin), urlsplit(f"http://{host}")
        if page.port != service.port:
            return False
    except ValueError:  # not an address
        return False
    names = [f"[{one}]" if one and ":" in one else one for one in (page.hostname, service.hostname)]
    return names[0] is not None and (names[0] == names[1] or all(name in LOOPBACK_NAMES for name in names))


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Answer with an error, which is also under `error`, where OpenAI's clients look for a message."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": detail, "type": kind, "param": None, "code": None}
    return JSONResponse({"detail": detail, "error": error}, status_code=status, headers=headers)
