"""The user and machine of this process, for histories that people read."""

import getpass
import os
import socket


def who() -> str:
    """Return user@host of this process; the user's id if it has no name."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a password entry
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
