"""The login of the MLflow server of an rnnlm home (mlflow_app.py). It has a single account with all permissions."""

import os

from rnnlm.storage.home import Home

APP_NAME = "rnnlm"  # The name of the app in mlflow_app.py.
AUTH_SETTINGS = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{database}
# A checked password is remembered for this many seconds: hashing it for each request takes most of a request's time.
auth_cache_ttl_seconds = 60
"""


def login_variables(home: Home, user: str, password: str) -> dict[str, str]:
    """Write MLflow's settings, and return the environment variables with which its server requires this login.

    The server creates its database of accounts at each start. Hence a changed password becomes valid.
    """
    folder = home.root / "mlflow-accounts"
    home.make(folder)
    folder.chmod(0o700)
    database, settings = folder / "accounts.db", folder / "accounts.ini"
    database.unlink(missing_ok=True)
    settings.write_text(AUTH_SETTINGS.format(database=str(database).replace("%", "%%")), encoding="utf-8")
    return {
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_AUTH_ADMIN_USERNAME": user,
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": os.urandom(16).hex(),
    }
