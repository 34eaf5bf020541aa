"""MLflow's server with a login, as the app `rnnlm` of `mlflow server --app-name`, which pyproject.toml registers.

MLflow's own app `basic-auth` is not used, because it reads a whole request into memory before it checks the login.
"""

import os
from typing import TYPE_CHECKING

from rnnlm.runtime.login_first import LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, BoundedBody, LoginFirst

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# The paths of artifact files. Requests for them may be as large as models, because MLflow reads them in small blocks.
STREAMED_PATHS = tuple(f"/{api}/2.0/mlflow-artifacts/artifacts/" for api in ("api", "ajax-api"))


def create_app() -> "ASGIApp":
    """Return an application with MLflow's API and pages, for the account of mlflow_accounts.login_variables()."""
    from mlflow.server.auth import create_app as create_app_with_accounts

    login = f"{os.environ['MLFLOW_AUTH_ADMIN_USERNAME']}:{os.environ['MLFLOW_AUTH_ADMIN_PASSWORD']}"
    bounded = BoundedBody(create_app_with_accounts(), LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, STREAMED_PATHS)
    return LoginFirst(bounded, login)
