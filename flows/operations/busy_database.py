"""Let Prefect's server repeat a request while its SQLite file is busy, instead of responding with 503.

Prefect sets write-ahead mode and a busy timeout of a minute. Nevertheless, a transaction that begins with a read fails
at once if another transaction has written meanwhile. Prefect's server rolls it back and responds with 503. Only
Prefect's own clients would then repeat the request.
"""

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from rnnlm.runtime.login_first import replayed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TRIES = 40
LONGEST_PAUSE_SECONDS = 0.5
BUSY = 503
LOCKED = "database is locked"  # SQLite's message if another connection is writing to the database.


class AgainIfBusy:
    """ASGI middleware that repeats a request up to TRIES times while the response is 503.

    It must run behind BoundedBody.
    """

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = (await receive()).get("body", b"")  # BoundedBody has read the whole body, so it is a single message.
        for _ in range(TRIES - 1):
            if await self.is_answered(scope, replayed(body, receive), send):
                return
            await asyncio.sleep(random.uniform(0.01, LONGEST_PAUSE_SECONDS))
        await self.app(scope, replayed(body, receive), send)

    async def is_answered(self, scope: "Scope", receive: "Receive", send: "Send") -> bool:
        """Pass on the response and return True, or return False if its status is 503."""
        is_busy = False

        async def send_unless_busy(message: "Message") -> None:
            nonlocal is_busy
            is_busy = is_busy or (message["type"] == "http.response.start" and message["status"] == BUSY)
            if not is_busy:
                await send(message)

        try:
            # The scope is copied, because the application changes it.
            await self.app(dict(scope), receive, send_unless_busy)
        except Exception:  # After the response 503, Starlette raises the exception again for the server's log.
            if not is_busy:
                raise
        return not is_busy


def busy_in_one_line(record: logging.LogRecord) -> bool:
    """Remove the traceback from a log record about a busy database. The log filter accepts all records.

    Prefect's services soon try to store their data again.
    """
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and LOCKED in str(error):
        record.msg = f"{record.getMessage().partition(chr(10))[0]}: the database was busy, so this is tried again"
        record.args, record.exc_info, record.exc_text = (), None, None
    return True
