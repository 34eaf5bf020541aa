"""Loopback ports: whether one is free, who uses it, and one that nobody uses."""

import socket

import psutil

from rnnlm.errors import ConfigError

HOST = "127.0.0.1"


def check_port(port: int, option: str) -> None:
    """ConfigError if another process listens at the port, with that process's name and id."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port of a server that has just ended is free
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} is not free: {listener(port) or error.strerror};\n"
                f"stop it, or choose another port with {option}"
            ) from error


def free_port() -> int:
    """A port that nobody uses now; another process may take it before the caller does."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listener(port: int) -> str:
    """`process 4711 listens there (python3 -m http.server)`; "" if it cannot be found."""
    for process in psutil.process_iter():
        try:
            connections = process.net_connections("tcp")
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections):
                command = " ".join(" ".join(process.cmdline()).split())  # of one line
                return f"process {process.pid} listens there ({command[:100]})"
        except psutil.Error:  # ended, or another user's
            continue
    return ""
