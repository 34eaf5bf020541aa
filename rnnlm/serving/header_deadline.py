"""Close connections that do not send a request's headers in time; uvicorn has no such limit.

Without it as many idle connections as the server accepts keep everybody else out.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def protocol_with_deadline(maximum_header_seconds: float) -> type[H11Protocol]:
    """uvicorn's HTTP/1.1 protocol with a limit on the seconds from one request's end to the next one's headers."""

    class HeaderDeadlineProtocol(H11Protocol):
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.wait_for_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:  # the headers are complete
                self.stop_waiting()

        def on_response_complete(self) -> None:
            self.wait_for_headers()
            super().on_response_complete()  # may begin the next request, which was sent already
            if self.cycle is not None and not self.cycle.response_complete:
                self.stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop_waiting()
            super().connection_lost(exc)

        def wait_for_headers(self) -> None:
            self.stop_waiting()
            self.deadline = self.loop.call_later(maximum_header_seconds, self.transport.close)

        def stop_waiting(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return HeaderDeadlineProtocol
