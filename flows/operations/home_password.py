"""The password of a home's own servers: `rnnlm up` makes it, commands and workers of the same home read it.

Loopback keeps no one out: every program and every user of the machine can reach it, and so can every page in a browser.
Whoever reaches Prefect's API without a password can have its worker run a shell command.
"""

import secrets

from rnnlm.home import Home, atomic_file

USER = "rnnlm"
FILE_NAME = "password"  # one line, USER:PASSWORD, as Prefect takes it


def home_password(home: Home) -> str:
    """`user:password` of the home's servers, made at the first call. The file is readable by its owner alone."""
    path = home.root / FILE_NAME
    home.make(home.root)
    with home.lock(FILE_NAME):
        if not path.exists():
            with atomic_file(path, private=True) as partial:
                partial.write_text(f"{USER}:{secrets.token_urlsafe(24)}\n", encoding="utf-8")
        return path.read_text(encoding="utf-8").strip()


def credentials(password: str) -> tuple[str, str]:
    """User and password of `user:password`."""
    user, _, secret = password.partition(":")
    return user, secret


def client_variables(password: str) -> dict[str, str]:
    """The environment variables of Prefect's clients."""
    return {"PREFECT_API_AUTH_STRING": password}


def server_variables(password: str, port: int) -> dict[str, str]:
    """Variables of Prefect's server: it asks for the password, and lets only its own pages read its answers."""
    origins = ",".join(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost"))
    return {"PREFECT_SERVER_API_AUTH_STRING": password, "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origins}
