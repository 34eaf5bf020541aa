"""No process of rnnlm executes a file of an rnnlm home. Environment variables that the user has set are kept."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import build_opener

import httpx
import httpx2
import pytest
import requests

from flows.command_line import main
from flows.operations.prefect_environment import set_environment
from flows.operations.prefect_query import health_problem
from rnnlm.runtime.subprocess_environment import ROOT
from rnnlm.storage.home import Home

SET_UP = """
from flows.operations.prefect_environment import set_environment
from rnnlm.storage.home import find_home
set_environment(find_home())
from prefect.logging.configuration import setup_logging
setup_logging()
"""


@pytest.mark.slow
def test_a_logging_yml_in_the_home_is_not_run(home: Home, tmp_path: Path) -> None:
    home.make(home.prefect)
    settings = {"version": 1, "handlers": {"strange": {"()": "os.mkdir", "path": str(tmp_path / "made")}}}
    (home.prefect / "logging.yml").write_text(json.dumps(settings), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run([sys.executable, "-c", SET_UP], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "made").exists()


ELSEWHERE = "http://127.0.0.1:9/api"  # An address at which no server listens.
PROJECT_FILES: dict[str, bytes | None] = {  # Files of other programs of the user. None means a folder.
    ".env": f"database=abc\nserver=x\nPREFECT_API_URL={ELSEWHERE}\nPREFECT_PROFILES_PATH=x.toml\n".encode(),
    ".env in Latin-1": b"NAME=J\xfcrgen\nSECRET=\xff\xfe\n",
    ".env of a virtual environment": None,
    "prefect.toml": f'[api]\nurl = "{ELSEWHERE}"\n[server.database]\ntimeout = "x"\n'.encode(),
    "prefect.toml damaged": b"[api\n",
    "pyproject.toml": f'[tool.prefect]\nnonsense = 3\nhome = "x"\n[tool.prefect.api]\nurl = "{ELSEWHERE}"\n'.encode(),
    "pyproject.toml damaged": b"[tool.prefect\nbroken",
    "pyproject.toml in Latin-1": b"# J\xfcrgen\n",
}


def write_project_file(folder: Path, case: str) -> None:
    content, path = PROJECT_FILES[case], folder / case.split()[0]
    path.mkdir() if content is None else path.write_bytes(content)


def rnnlm_in(folder: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a separate process in `folder`, with the rnnlm home `folder/home`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment |= {"PYTHONPATH": str(ROOT), "RNNLM_HOME": "home", **variables}
    command = [sys.executable, "-m", "flows.command_line", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", PROJECT_FILES)
def test_prefect_s_files_of_the_current_folder_change_nothing(tmp_path: Path, case: str) -> None:
    """A flow runs on a temporary server even if the current folder has files with Prefect's settings.

    The paths of the corpus and of the rnnlm home are relative to this folder.
    """
    write_project_file(tmp_path, case)
    (tmp_path / "text.txt").write_text("".join(f"the cat number {number} sees the dog .\n" for number in range(300)))
    before = set(tmp_path.iterdir())
    done = rnnlm_in(tmp_path, "prepare", "--corpus", "text.txt", "--json")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert set(tmp_path.iterdir()) - before == {tmp_path / "home"}
    assert (tmp_path / "home" / "prefect" / "prefect.db").exists()
    for command in (["schedules"], ["runs", "--json"], ["prune"]):
        done = rnnlm_in(tmp_path, *command)
        assert "Traceback" not in done.stderr
        assert ELSEWHERE not in done.stderr


@pytest.mark.long
def test_a_variable_that_prefect_does_not_know_is_a_sentence(tmp_path: Path) -> None:
    done = rnnlm_in(tmp_path, "prepare", "--corpus", "zen", PREFECT_LOGGING_LEVEL="nonsense")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "level is 'NONSENSE'" in done.stderr


def test_what_the_user_has_set_wins(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    monkeypatch.delenv("HF_HUB_DISABLE_TELEMETRY", raising=False)
    set_environment(home)
    assert os.environ["DO_NOT_TRACK"] == "1"
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_a_proxy_is_not_asked_for_the_servers_of_the_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "example.org")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # An address at which no proxy listens.
    for _ in range(2):
        set_environment(home)
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "example.org,127.0.0.1,localhost,::1"
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # The server supports no method, so the status 501 shows that it was reached.
        assert httpx.get(f"http://127.0.0.1:{server.server_port}").status_code == 501
        server.shutdown()


DEAD = "127.0.0.1:9"  # An address at which no process listens.
PROXIES = [
    {"http_proxy": f"http://{DEAD}", "https_proxy": f"http://{DEAD}"},
    {"ALL_PROXY": f"socks5://{DEAD}"},
    {"all_proxy": f"socks5h://name:secret@{DEAD}"},
    {"ALL_PROXY": f"socks4://{DEAD}"},
    {"ALL_PROXY": f"socks://{DEAD}"},  # GNOME sets ALL_PROXY in this form.
    {"ALL_PROXY": f"SOCKS5://{DEAD}"},
    {"ALL_PROXY": DEAD},
    {"HTTP_PROXY": f"socks5://{DEAD}"},
    {"HTTPS_PROXY": f"socks4a://{DEAD}", "HTTP_PROXY": f"http://{DEAD}"},
    {"http_proxy": f"http://{DEAD}", "https_proxy": f"http://{DEAD}", "all_proxy": f"socks5://{DEAD}"},
    {"HTTPS_PROXY": "http://[1/"},
]
NO_PROXIES = [{}, {"NO_PROXY": "example.org"}, {"no_proxy": "localhost"}, {"NO_PROXY": "*"}]


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    # monkeypatch sets these variables, so that it restores them after the test.
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.long
@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("proxies", PROXIES, ids=str)
def test_every_library_asks_loopback_without_a_proxy(
    home: Home, proxies: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for excepted in NO_PROXIES:
            with monkeypatch.context() as environment:
                for name in ("no_proxy", "NO_PROXY"):
                    environment.delenv(name, raising=False)
                for name, value in (proxies | excepted).items():
                    environment.setenv(name, value)
                # The function is called for the command, and again for a process that the command starts.
                for _ in range(2):
                    set_environment(home)
                address = f"http://{'localhost' if excepted else '127.0.0.1'}:{server.server_port}"
                for get in (httpx.get, httpx2.get, requests.get):
                    # The server supports no method, so the status 501 shows that it was reached.
                    assert get(address).status_code == 501
                with pytest.raises(HTTPError, match="501"):
                    # Unlike urlopen, this opener does not keep the proxies for later tests.
                    build_opener().open(address)
                assert health_problem(address) == "status 501"
        server.shutdown()


@pytest.mark.usefixtures("no_proxies")
def test_what_lies_elsewhere_is_asked_through_a_usable_proxy(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to other addresses use the http and https proxies, even if ALL_PROXY names a proxy that cannot be used.

    Desktops often set all three environment variables.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("ALL_PROXY", f"socks5://{DEAD}")
        set_environment(home)
        for get in (httpx.get, httpx2.get, requests.get):
            assert get("http://text.invalid").status_code == 501
        proxy.shutdown()


@pytest.mark.long
@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    ("command", "variables", "package"),
    [
        (["run", "--preset", "smoke", "--corpus", "http://text.invalid/a.txt"], {}, "PySocks"),
        (["prepare", "--corpus", "https://text.invalid/a.txt"], {}, "PySocks"),
        (["prepare", "--corpus", "hf:owner/name"], {}, "socksio"),
        (["schedules"], {"PREFECT_API_URL": "http://prefect.invalid/api"}, "socksio"),
        (["models"], {"MLFLOW_TRACKING_URI": "https://mlflow.invalid"}, "PySocks"),
    ],
)
@pytest.mark.parametrize("scheme", ["socks5", "socks"])
def test_a_proxy_that_cannot_be_used_is_named_in_one_sentence(
    command: list[str],
    variables: dict[str, str],
    package: str,
    scheme: str,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in ({"ALL_PROXY": f"{scheme}://name:secret@{DEAD}"} | variables).items():
        monkeypatch.setenv(name, value)
    assert main(command) == 2
    said = capsys.readouterr().err
    assert f"is of the kind {scheme}://" in said
    assert "secret" not in said
    assert (f"pip install {package}" if scheme == "socks5" else "expected http, https or socks") in said
    assert "Traceback" not in said


@pytest.mark.long
@pytest.mark.usefixtures("no_proxies")
def test_a_run_takes_no_notice_of_a_proxy_that_cannot_be_used(home: Home, toy_folder: Path) -> None:
    """A run works even if the environment names a proxy that cannot be used.

    The run uses Prefect's client and server, Prefect's events, and MLflow, all in real processes.
    """
    variables = {"RNNLM_HOME": str(home.root), "ALL_PROXY": f"socks5://{DEAD}"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")} | variables
    for command in (["run", "--preset", "smoke", "--corpus", str(toy_folder)], ["status"], ["models"]):
        rnnlm = [sys.executable, "-c", "from flows.command_line import console_entry; console_entry()"]
        done = subprocess.run([*rnnlm, *command], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_a_shell_reads_what_env_prints(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = f"{home.root} it's"
    monkeypatch.setenv("RNNLM_HOME", strange)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4321/api")
    assert main(["env"]) == 0
    script = f'{capsys.readouterr().out}\necho "$PREFECT_HOME"; echo "$PREFECT_API_URL"'
    shell = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True)
    assert shell.stdout.splitlines() == [f"{Path(strange).resolve()}/prefect", "http://127.0.0.1:4321/api"]
    # The folder must exist, because `prefect server start` does not create it.
    assert (Path(strange) / "prefect").is_dir()
