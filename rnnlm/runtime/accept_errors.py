"""A filter for the log of a server that cannot accept connections, because it has too many open files."""

import logging
import time

EVERY_SECONDS = 60.0
# The beginnings of two messages of asyncio: the first is logged for each refused connection, the second for each retry
# after the server was closed.
REFUSED = "socket.accept() out of system resource"
RETRIED = "Exception in callback BaseSelectorEventLoop._start_serving("


class OneLineAMinute(logging.Filter):
    """A filter that reduces asyncio's messages about refused connections to one line per minute.

    asyncio logs up to 2,048 of these messages per second, each with a traceback. A client that opens many connections
    could fill the disk with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.next_line = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith((REFUSED, RETRIED)):
            return True
        now = time.monotonic()
        if now < self.next_line or str(record.msg).startswith(RETRIED):
            return False
        self.next_line = now + EVERY_SECONDS
        record.msg, record.args, record.exc_info = "too many open files: new connections wait (ulimit -n)", (), None
        return True


def shorten_accept_errors() -> None:
    """Add a OneLineAMinute filter to the logger of asyncio in this process."""
    logging.getLogger("asyncio").addFilter(OneLineAMinute())
