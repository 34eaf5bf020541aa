"""Ports of this machine."""

import socket


def free_port() -> int:
    """Return a port that no process uses now. Another process may take it before the caller does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
