"""MLflow's server with a login. pyproject.toml registers it as an app that `mlflow server --app-name rnnlm` starts.

MLflow's own app `basic-auth` is not used, because it reads a whole request into memory before it checks the login.
"""

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.runtime.accept_errors import shorten_accept_errors
from rnnlm.runtime.login_first import LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, BoundedBody, LoginFirst

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# The paths of artifact files. The size of their requests is not limited, because MLflow reads them in small blocks.
STREAMED_PATHS = tuple(f"/{api}/2.0/mlflow-artifacts/artifacts/" for api in ("api", "ajax-api"))


def create_app() -> "ASGIApp":
    """Return an ASGI application with MLflow's API and pages, for the accounts in MLFLOW_AUTH_CONFIG_PATH."""
    from mlflow.server.auth import create_app as create_app_with_accounts

    shorten_accept_errors()
    # Each worker process of the server creates missing tables of accounts and the first account. The processes take
    # turns, because MLflow's migrations fail if two run at once.
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        application = create_app_with_accounts()
    bounded = BoundedBody(application, LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, STREAMED_PATHS)
    return LoginFirst(bounded, has_account)


async def has_account(authorization: str) -> bool:
    """Return True if MLflow knows the account and the password in the Authorization header.

    MLflow remembers a success for `auth_cache_ttl_seconds` of its configuration. Otherwise, it hashes the password in a
    thread, because hashing takes longer than most requests.
    """
    import anyio.to_thread
    from mlflow.server import app
    from mlflow.server.auth import authenticate_request
    from werkzeug.datastructures import Authorization

    def authenticate() -> bool:
        with app.test_request_context(headers={"Authorization": authorization}):
            return isinstance(authenticate_request(), Authorization)

    # MLflow fails if the header contains anything other than an account and a password.
    given = Authorization.from_header(authorization)
    is_basic = given is not None and given.type == "basic" and given.username is not None
    return is_basic and await anyio.to_thread.run_sync(authenticate)
