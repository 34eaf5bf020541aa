"""The process of `rnnlm serve` prints the service's address. It completes running requests before it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from rnnlm.errors import ConfigError
from rnnlm.extensions.serving.server import serve_model
from rnnlm.extensions.serving.serving_config import ServingConfig, bound_socket
from rnnlm.storage.home import Home
from tests.rnnlm.extensions.serving.live_server import serving

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.long
def test_sigterm_drains(endless_model: Path, home: Home) -> None:
    environment = os.environ | {"RNNLM_HOME": str(home.root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "flows.command_line", "serve", str(endless_model), "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    assert said["model"] == str(endless_model)
    answers: list[httpx.Response] = []

    def ask(seed: int) -> None:
        request = {"maximum_tokens": 2_000, "seed": seed}
        answers.append(httpx.post(f"{said['address']}/generate", json=request, timeout=120, trust_env=False))

    asking = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in asking:
        thread.start()
    with httpx.Client(base_url=said["address"], trust_env=False) as client:
        while "rnnlm_prompts_running 4.0" not in client.get("/metrics").text:
            assert not answers
            time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    for thread in asking:
        thread.join()
    assert process.wait(timeout=60) == 0
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [len(answer.json()["tokens"]) for answer in answers] == [2_000] * 4  # No response is truncated.


@pytest.mark.long
def test_more_connections_than_open_files_do_not_fill_the_log(toy_model: Path, home: Home, tmp_path: Path) -> None:
    environment = os.environ | {"RNNLM_HOME": str(home.root), "OMP_NUM_THREADS": "1"}
    serve = [sys.executable, "-m", "flows.command_line", "serve", str(toy_model), "--port", "0", "--json"]
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *serve]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            limited, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        waiting = [socket.create_connection(place) for _ in range(100)]
        time.sleep(3)
        for connection in waiting:
            connection.close()
        assert httpx.get(f"{address}/health", timeout=60, trust_env=False).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
    told = (tmp_path / "log").read_text(encoding="utf-8")
    assert told.count("too many open files: new connections wait (ulimit -n)") == 1
    assert len(told.splitlines()) < 20


@pytest.mark.long
def test_idle_connections_are_closed_and_others_get_in(toy_model: Path) -> None:
    with serving(toy_model, maximum_connections=8, maximum_header_seconds=0.5) as live:
        idle = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(12)]
        # The first connection is idle after a complete request.
        idle[0].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        idle[1].sendall(b"GET /health HTTP/1.1\r\nHost: ")  # The request of the second connection is never complete.
        assert live.client.get("/health").status_code == 503
        time.sleep(0.3)
        idle[1].sendall(b"1")
        time.sleep(0.5)
        with httpx.Client(base_url=live.address, trust_env=False) as client:
            assert client.get("/health").status_code == 200
            time.sleep(0.2)
            # After one response, a connection accepts further requests.
            assert client.get("/health").status_code == 200
        for connection in idle[1:]:
            connection.settimeout(5)
            assert connection.recv(1) == b""
            connection.close()


def test_a_taken_address_is_a_config_error(toy_model: Path, home: Home) -> None:
    with bound_socket(ServingConfig(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: cannot listen there"):
            serve_model(home, str(toy_model), ServingConfig(port=port), lambda address, model: None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_a_public_address_needs_a_token(host: str) -> None:
    with pytest.raises(ValidationError, match="needs a token"):
        ServingConfig(host=host)
    with pytest.raises(ValidationError, match="at least 16"):
        ServingConfig.model_validate({"host": host, "token": "short"})
    config = ServingConfig.model_validate({"host": host, "token": "long enough for this"})
    assert "long enough" not in repr(config)


def test_the_service_listens_on_ipv6(toy_model: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with bound_socket(ServingConfig(host="::1", port=0)) as listener:
            assert listener.family == socket.AF_INET6
    except ConfigError as error:
        assert "cannot listen" in str(error)  # The server cannot listen, because this machine has no address ::1.
