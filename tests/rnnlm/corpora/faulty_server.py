"""An HTTP server on this machine that breaks off connections, stalls, and sends wrong or changed bytes."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rnnlm.corpora.http_request import FetchPolicy

TEXT = b"".join(b"the cat number %d sees the dog .\n" % number for number in range(200))
HALF = len(TEXT) // 2
QUICK = FetchPolicy(attempts=3, connect_seconds=2, read_seconds=0.3, backoff_seconds=0.01, maximum_wait_seconds=0.4)


class FaultyServer(ThreadingHTTPServer):
    """An HTTP server that serves one file, with or without a fault.

    Its attribute `behaviour` is the name of a fault, or of the way in which the file is served.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = "good"
        self.body = TEXT
        self.etag: str | None = '"one"'
        self.asked: list[tuple[str, str | None]] = []  # The path and the Range header of each request.
        # The If-None-Match header of each request, or else the If-Modified-Since header.
        self.conditions: list[str | None] = []
        self.modified: str | None = None
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/text"


class Handler(BaseHTTPRequestHandler):
    server: FaultyServer

    def do_GET(self) -> None:
        server, first = self.server, not self.server.asked
        server.asked.append((self.path, self.headers["Range"]))
        server.conditions.append(self.headers["If-None-Match"] or self.headers["If-Modified-Since"])
        behaviour = server.behaviour
        if behaviour == "moved" and first:
            self.answer(301, b"", Location="elsewhere")
        elif behaviour.startswith("redirect "):
            self.answer(302, b"", Location=behaviour.split()[1])
        elif behaviour.startswith("status "):
            self.answer(int(behaviour.split()[1]), b"sorry")
        elif behaviour.startswith("busy "):
            if first:
                self.answer(503, b"", **{"Retry-After": behaviour.removeprefix("busy ")})
            else:
                self.file()
        elif behaviour == "breaks off" or (behaviour == "breaks off once" and first):
            self.file(upto=HALF)
        elif behaviour == "stalls once" and first:
            self.file(upto=HALF, stall=True)
        elif behaviour == "chunked and cut" and first:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\n")
        elif behaviour == "no length":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(server.body)
            self.close_connection = True
        else:
            self.file()

    def file(self, upto: int | None = None, stall: bool = False) -> None:
        """Respond with the file or the requested range. The If-Range header is handled as RFC 9110 requires."""
        server, body, begin = self.server, self.server.body, 0
        asked = self.headers["Range"]
        same = self.headers["If-Range"] in (None, server.etag) or server.behaviour in (
            "ignores If-Range",
            "does not confirm",
        )
        silent = server.behaviour == "does not confirm" and asked
        headers = {"ETag": server.etag} if server.etag and not silent else {}
        headers |= {"Last-Modified": server.modified} if server.modified else {}
        if server.conditions[-1] in {server.etag, server.modified} - {None}:
            self.answer(304, b"", **headers)
            return
        if asked and same and server.behaviour != "ignores Range":
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(body):
                self.answer(416, b"", **headers, **{"Content-Range": f"bytes */{len(body)}"})
                return
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
            if server.behaviour == "sends another range":
                headers["Content-Range"] = f"bytes {begin + 1}-{len(body) - 1}/{len(body)}"
        self.send_response(206 if begin else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        self.wfile.write(body[begin:upto])
        if stall:
            self.wfile.flush()
            server.released.wait(5)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None: ...
