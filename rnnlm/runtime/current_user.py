"""The user and machine of this process, which are stored in histories."""

import getpass
import os
import socket


def who() -> str:
    """Return user@host for this process, with the user's id if the user has no name."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # In a container, the user may have no password entry.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
