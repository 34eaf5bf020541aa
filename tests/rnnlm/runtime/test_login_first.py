"""Without credentials, a server reads no request body. With credentials, it reads bodies up to a limit."""

import asyncio
import base64
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from rnnlm.runtime.login_first import BoundedBody, LoginFirst, only

LOGIN = "rnnlm:secret"
KNOWN = {"authorization": f"Basic {base64.b64encode(LOGIN.encode()).decode()}"}


def ask(method: str, headers: dict[str, str], parts: list[bytes], path: str = "/") -> tuple[int, bytes, int]:
    """Send a request, and return the status, the body of the response, and the number of parts that were read.

    The response repeats the body of the request.
    """
    read, sent = 0, list[Message]()

    async def receive() -> Message:
        nonlocal read
        if read == len(parts):
            return {"type": "http.disconnect"}
        read += 1
        return {"type": "http.request", "body": parts[read - 1], "more_body": read < len(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    scope: dict[str, Any] = {"type": "http", "method": method, "path": path}
    scope["headers"] = [(name.encode(), text.encode("latin-1")) for name, text in headers.items()]
    app = LoginFirst(BoundedBody(echo, 10, 5.0, streamed=("/files/",)), only(LOGIN))
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], read


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "POTATO"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Basic"},
        {"authorization": "Basic rnnlm:secret"},
        {"authorization": KNOWN["authorization"].replace("Basic", "Bearer")},
        {"authorization": f"Basic {base64.b64encode(b'rnnlm:secre').decode()}"},
        {"authorization": f"Basic {base64.b64encode(b'rnnlm:secret2').decode()}"},
        {"authorization": "Basic \xff\xfe"},
    ],
)
def test_without_the_login_no_body_is_read(method: str, headers: dict[str, str]) -> None:
    status, _, read = ask(method, headers, [b"x"] * 5)
    assert (status, read) == (401, 0)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_needs_no_body_passes_without_one(method: str) -> None:
    assert ask(method, {}, [b"x"] * 5) == (200, b"", 0)


def test_with_the_login_a_body_passes_up_to_its_bound() -> None:
    assert ask("POST", KNOWN, [b"abc", b"def"]) == (200, b"abcdef", 2)
    assert ask("POST", {"authorization": KNOWN["authorization"].lower().replace("basic", "BASIC")}, [b"a"])[0] == 401
    assert ask("POST", KNOWN, [b"x" * 4] * 100)[::2] == (413, 3)
    assert ask("PUT", KNOWN, [b"x" * 4] * 100, "/files/model")[1] == b"x" * 400
