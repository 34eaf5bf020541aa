"""Environment variables that must be set before Prefect is imported: where it keeps files, no telemetry, logging."""

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

PREFECT_PORT = 4200  # where `prefect server start` listens
LOCAL_API = f"http://127.0.0.1:{PREFECT_PORT}/api"
VARIABLE_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "TQDM_DISABLE": "1",  # other libraries' progress bars; ours decide for themselves
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rnnlm",  # the library's log lines join the flow run's log
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # 20 s are too few on a busy machine
    # Prefect's default keeps leases in memory: a restart would leave a dead run's concurrency slot taken for ever.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    # Prefect's server deletes old flow runs with their logs and artifacts; events it deletes after 7 days by default.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(HISTORY_DAYS * 24 * 3600),  # seconds
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # an unused service of `mlflow ui` that takes 700 MB
    **QUIET_LIBRARIES,
    **ENVIRONMENT_DEFAULTS,
}


def set_environment(home: Home, *, stores: bool = True) -> None:
    """Set the defaults for this process and its children; variables that the user has set win.

    stores: whether the process may make the home.
    """
    if stores:
        home.make(home.prefect)
        # By default a folder of a name that anyone can guess and make first, below that of all temporary files.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(home.temporary / "torchinductor"))
    keep_loopback_from_proxy()
    if "prefect" not in sys.modules and not any(isinstance(finder, PrefectFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PrefectFinder())
    # Processes and Prefect's settings are begun in other folders, where a relative path would mean something else.
    os.environ["RNNLM_HOME"] = str(home.root)
    if own := os.environ.get("PREFECT_HOME"):
        os.environ["PREFECT_HOME"] = str(expanded(own).absolute())
    # With Prefect's default of 5, each call to a lost server takes a minute. A command has a fallback.
    for name, value in (home_defaults(home) | {"PREFECT_CLIENT_MAX_RETRIES": "3"}).items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" not in os.environ:
        os.environ.setdefault("PREFECT_HOME", str(home.prefect))
        if running := read_running(home):
            os.environ["PREFECT_API_URL"] = running.prefect_api
            os.environ["PREFECT_API_AUTH_STRING"] = home_password(home)
            os.environ.setdefault("MLFLOW_PORT", str(running.mlflow_port))


def prefect_package() -> Path:
    """Return the folder of Prefect, found without importing it: it reads its settings on import."""
    prefect = importlib.util.find_spec("prefect")
    assert prefect is not None
    assert prefect.origin is not None
    return Path(prefect.origin).parent


def away_from_project_files() -> contextlib.AbstractContextManager[None]:
    """Make Prefect's own folder the current one inside the block, in which Prefect reads its settings.

    It reads them also from `.env`, `prefect.toml` and `pyproject.toml` of the current folder, which belong to the
    user's other programs: they would end a run, or send it to another server.
    """
    return contextlib.chdir(prefect_package())


class PrefectFinder:
    """Finds Prefect for its first import, whichever module asks for it, to import it away from the user's files."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name) if name == "prefect" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = PrefectLoader(spec.loader.name, spec.loader.path)
        return spec


class PrefectLoader(SourceFileLoader):
    """Imports Prefect. ConfigError for a variable PREFECT_… with a value that it does not know."""

    def exec_module(self, module: ModuleType) -> None:
        from pydantic import ValidationError

        said = io.StringIO()  # Prefect first prints a traceback of what is wrong
        try:
            with away_from_project_files(), contextlib.redirect_stderr(said):
                super().exec_module(module)
                importlib.import_module("prefect.context")  # reads the settings
            sys.stderr.write(said.getvalue())
        except ValidationError as error:
            wrong = error.errors()[0]
            name = ".".join(map(str, wrong["loc"]))
            raise ConfigError(
                f"{error.title} of Prefect: {name} is {wrong['input']!r}: {wrong['msg']};\n"
                "change or unset the environment variable PREFECT_… of that name"
            ) from error


def keep_loopback_from_proxy() -> None:
    """Keep the home's own servers from the machine's proxy, for this process, its children and all libraries."""
    if not getproxies():
        return
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if known.strip() == "*":  # all is reached directly; in a longer list most libraries take the star for a name
        return
    names = [name.strip() for name in known.split(",") if name.strip()]
    names += [name for name in ("127.0.0.1", "localhost", "::1") if name not in names]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(names)
    if {"http", "https"} <= getproxies().keys():  # which libraries prefer for all that we ask
        for name in ("all_proxy", "ALL_PROXY"):
            os.environ.pop(name, None)
    if not httpx_takes_proxies():
        # httpx, and so Prefect's client, makes all proxies at once, also for a server that is asked without one. In a
        # list the star keeps httpx alone from them. What lies elsewhere is refused before: rnnlm.runtime.proxies.
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join([*names, "*"])


def httpx_takes_proxies() -> bool:
    import httpx

    try:
        httpx.Client(verify=False).close()
    except (ImportError, ValueError, httpx.InvalidURL):  # no socksio, a scheme such as socks4://, or no address
        return False
    return True


def server_variables(home: Home, running: RunningHome | None) -> dict[str, str]:
    """Return the variables of Prefect's server, its worker and `mlflow ui` on this home. running: gives the ports."""
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
        # By default Prefect prefers $PREFECT_HOME/logging.yml, which can run code.
        "PREFECT_LOGGING_SETTINGS_PATH": str(prefect_package() / "logging" / "logging.yml"),
    }
