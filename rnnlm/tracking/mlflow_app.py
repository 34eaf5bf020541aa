"""MLflow's server with a login: the app `rnnlm` of `mlflow server --app-name`, named in pyproject.toml.

MLflow's own app `basic-auth` reads a whole body into memory before it asks who sends it.
"""

import os
from typing import TYPE_CHECKING

from rnnlm.runtime.login_first import LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, BoundedBody, LoginFirst

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# MLflow itself reads files of artifacts piece by piece; they may be as large as models are.
STREAMED_PATHS = tuple(f"/{api}/2.0/mlflow-artifacts/artifacts/" for api in ("api", "ajax-api"))


def create_app() -> "ASGIApp":
    """Return the application with MLflow's API and pages, for the one account of mlflow_accounts.login_variables()."""
    from mlflow.server.auth import create_app as create_app_with_accounts

    login = f"{os.environ['MLFLOW_AUTH_ADMIN_USERNAME']}:{os.environ['MLFLOW_AUTH_ADMIN_PASSWORD']}"
    bounded = BoundedBody(create_app_with_accounts(), LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, STREAMED_PATHS)
    return LoginFirst(bounded, login)
