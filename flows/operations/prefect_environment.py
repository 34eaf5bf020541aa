"""Set environment variables before Prefect is imported: Prefect's folders, its logging, and no telemetry."""

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from urllib.request import getproxies

from flows.operations.home_servers import RunningHome, home_password, password_variables, read_running
from rnnlm.errors import ConfigError
from rnnlm.runtime.library_environment import QUIET_LIBRARIES
from rnnlm.storage.home import HISTORY_DAYS, Home, expanded
from rnnlm.tracking.mlflow_store import ENVIRONMENT_DEFAULTS, embedded_uri

PREFECT_PORT = 4200  # The default port of `prefect server start`.
LOCAL_API = f"http://127.0.0.1:{PREFECT_PORT}/api"
VARIABLE_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "TQDM_DISABLE": "1",  # Disable progress bars of other libraries. rnnlm's own bars do not depend on this variable.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rnnlm",  # Add the log lines of the `rnnlm` logger to the flow run's log.
    # The timeout for starting a temporary server. Prefect's default of 20 s is too short on a busy machine.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # Store leases in files. Prefect's default, memory, would lose them at a restart, and a dead run would still occupy
    # its concurrency slot.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    # Let Prefect's server delete old flow runs with their logs and artifacts. Events are deleted after 7 days by
    # default.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    # The age, in seconds, above which old flow runs are deleted.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(HISTORY_DAYS * 24 * 3600),
    # Disable a service of `mlflow ui` that is not used here and needs 700 MB.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    **QUIET_LIBRARIES,
    **ENVIRONMENT_DEFAULTS,
}


def set_environment(home: Home, *, stores: bool = True) -> None:
    """Set the defaults of environment variables for this process and its children.

    Variables that the user has set are kept. `stores` is true if the process may create the rnnlm home.
    """
    if stores:
        home.make(home.prefect)
        # By default, this folder has a predictable name in the common temporary folder, and another user could create
        # it first.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(home.temporary / "torchinductor"))
    keep_loopback_from_proxy()
    if "prefect" not in sys.modules and not any(isinstance(finder, PrefectFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PrefectFinder())
    # The path is made absolute, because child processes and Prefect use it in other folders.
    os.environ["RNNLM_HOME"] = str(home.root)
    if own := os.environ.get("PREFECT_HOME"):
        os.environ["PREFECT_HOME"] = str(expanded(own).absolute())
    # With Prefect's default of 5 retries, each call to an unavailable server takes a minute. With 3, a command soon
    # uses a temporary server instead.
    for name, value in (home_defaults(home) | {"PREFECT_CLIENT_MAX_RETRIES": "3"}).items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" not in os.environ:
        os.environ.setdefault("PREFECT_HOME", str(home.prefect))
        if running := read_running(home):
            os.environ["PREFECT_API_URL"] = running.prefect_api
            os.environ["PREFECT_API_AUTH_STRING"] = home_password(home)
            os.environ.setdefault("MLFLOW_PORT", str(running.mlflow_port))


def prefect_package() -> Path:
    """Return the folder of the prefect package. The package is not imported, because it would read its settings."""
    prefect = importlib.util.find_spec("prefect")
    assert prefect is not None
    assert prefect.origin is not None
    return Path(prefect.origin).parent


def away_from_project_files() -> contextlib.AbstractContextManager[None]:
    """Change to Prefect's own folder inside the block, so that Prefect reads its settings there.

    Prefect also reads settings from `.env`, `prefect.toml` and `pyproject.toml` in the current folder. Settings for
    other programs of the user could make a run fail or send it to another server.
    """
    return contextlib.chdir(prefect_package())


class PrefectFinder:
    """An import finder that lets Prefect be imported first in a folder without the user's files."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name) if name == "prefect" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = PrefectLoader(spec.loader.name, spec.loader.path)
        return spec


class PrefectLoader(SourceFileLoader):
    """A loader that imports Prefect.

    It raises ConfigError if an environment variable PREFECT_… has an invalid value.
    """

    def exec_module(self, module: ModuleType) -> None:
        from pydantic import ValidationError

        # Prefect prints a traceback before it raises an error about an invalid value. The traceback is suppressed here.
        said = io.StringIO()
        try:
            with away_from_project_files(), contextlib.redirect_stderr(said):
                super().exec_module(module)
                importlib.import_module("prefect.context")  # Prefect reads its settings during this import.
            sys.stderr.write(said.getvalue())
        except ValidationError as error:
            wrong = error.errors()[0]
            name = ".".join(map(str, wrong["loc"]))
            raise ConfigError(
                f"{error.title} of Prefect: {name} is {wrong['input']!r}: {wrong['msg']};\n"
                "change or unset the environment variable PREFECT_… that sets this value"
            ) from error


def keep_loopback_from_proxy() -> None:
    """Exclude the rnnlm home's servers from the machine's proxy, for all libraries of this process and its children."""
    if not getproxies():
        return
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    # The user has already excluded all addresses, and most libraries do not understand a star in a longer list.
    if known.strip() == "*":
        return
    names = [name.strip() for name in known.split(",") if name.strip()]
    names += [name for name in ("127.0.0.1", "localhost", "::1") if name not in names]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(names)
    # The variable for all schemes is removed, because most libraries prefer the variables for http and https.
    if {"http", "https"} <= getproxies().keys():
        for name in ("all_proxy", "ALL_PROXY"):
            os.environ.pop(name, None)
    if not httpx_takes_proxies():
        # The star prevents httpx, and therefore Prefect's client, from setting up any proxy, even for a server that
        # is reached directly. It affects only httpx. Requests to other addresses are refused earlier, by
        # rnnlm.runtime.proxies.
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join([*names, "*"])


def httpx_takes_proxies() -> bool:
    import httpx

    try:
        httpx.Client(verify=False).close()
    # socksio is missing, the scheme is unsupported (such as socks4://), or the address is invalid.
    except (ImportError, ValueError, httpx.InvalidURL):
        return False
    return True


def server_variables(home: Home, running: RunningHome | None) -> dict[str, str]:
    """Return the environment variables of Prefect's server, its worker and `mlflow ui` for this rnnlm home.

    The ports are taken from `running` if it is given.
    """
    port = running.prefect_port if running else PREFECT_PORT
    return {
        **password_variables(home_password(home), port),
        "RNNLM_HOME": str(home.root),
        "PREFECT_HOME": str(home.prefect),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "MLFLOW_BACKEND_STORE_URI": embedded_uri(home),
    }


def home_defaults(home: Home) -> dict[str, str]:
    return VARIABLE_DEFAULTS | {
        "RNNLM_HOME": str(home.root),
        # The path is set, because Prefect would otherwise read $PREFECT_HOME/logging.yml, which can run code.
        "PREFECT_LOGGING_SETTINGS_PATH": str(prefect_package() / "logging" / "logging.yml"),
    }
