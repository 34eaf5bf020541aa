"""ASGI middleware that prevents pages of other sites from using a service on this machine."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class OwnOrigin:
    """Middleware that responds with 403 to requests that a browser sends for a page of another site.

    A browser sends the page's site in the Origin header, also for WebSockets. Requests without this header come from
    other programs and are accepted. All names of the loopback interface are equivalent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] in ("http", "websocket") else Headers()
        origin = headers.get("origin")
        if origin is None or same_site(origin, headers.get("host", "")):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            # The client gets the status 403 if its WebSocket is closed before it is accepted.
            await send({"type": "websocket.close", "code": 1008})
        else:
            refused = problem(403, f"this service answers its own pages, not those of {origin}")
            await refused(scope, receive, send)


def same_site(origin: str, host: str) -> bool:
    """Return True if a page of the site `origin` may use the service at `host`. Both arguments include the port."""
    try:
        page, service = urlsplit(origin), urlsplit(f"http://{host}")
        if page.port != service.port:
            return False
    except ValueError:  # The page may not use the service, because `origin` or `host` is not an address.
        return False
    names = [f"[{one}]" if one and ":" in one else one for one in (page.hostname, service.hostname)]
    return names[0] is not None and (names[0] == names[1] or all(name in LOOPBACK_NAMES for name in names))


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error response. The message is also in the field `error`, as OpenAI's clients expect."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": detail, "type": kind, "param": None, "code": None}
    return JSONResponse({"detail": detail, "error": error}, status_code=status, headers=headers)
