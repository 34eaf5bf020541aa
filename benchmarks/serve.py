"""Measure the service under load: latencies, failures, the gain of batching, and the growth of its memory.

    .venv/bin/python benchmarks/serve.py MODEL [--requests 200] [--concurrent 32 1] [--tokens 40]
    .venv/bin/python benchmarks/serve.py MODEL --memory 5000

`rnnlm serve MODEL` runs in a separate process. The clients are threads of this process with one connection each.
"""

import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

WARM_UP = 8  # The number of requests that are not measured.


@dataclass
class Load:
    """The results of many requests to the service."""

    seconds: list[float] = field(default_factory=list)  # The duration in seconds of each request with status 200.
    tokens: int = 0
    failures: list[str] = field(default_factory=list)
    wall_seconds: float = 0.0


@contextmanager
def served(model: str, *options: str) -> Iterator[tuple[str, int, int]]:
    """Run a service inside the `with` block, and yield its host, port and process id."""
    command = [sys.executable, "-m", "flows.command_line", "serve", model, "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit(process.wait())
    host, _, port = json.loads(line)["address"].removeprefix("http://").rpartition(":")
    try:
        yield host, int(port), process.pid
    finally:
        process.terminate()
        process.wait()


def put_under_load(host: str, port: int, requests: list[dict[str, Any]], concurrent: int, path: str = "") -> Load:
    """Send all requests, at most `concurrent` at the same time, and return the measurements.

    Requests with a text to score are sent to /score and others to /generate, unless `path` is given.
    """
    load, waiting, lock = Load(), iter(requests), threading.Lock()

    def client() -> None:
        connection = http.client.HTTPConnection(host, port, timeout=120)
        while True:
            with lock:
                request = next(waiting, None)
            if request is None:
                connection.close()
                return
            start = time.perf_counter()
            try:
                status, answer = ask(connection, path or ("/score" if "text" in request else "/generate"), request)
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, {"detail": repr(error)}
                connection.close()
            with lock:
                if status == 200:
                    load.seconds.append(time.perf_counter() - start)
                    load.tokens += len(answer["tokens"])
                else:
                    load.failures.append(f"{status} {answer.get('detail')}")

    start = time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(concurrent)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.wall_seconds = time.perf_counter() - start
    return load


def ask(connection: http.client.HTTPConnection, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def figures(host: str, port: int) -> dict[str, float]:
    """Return the values of the service's metrics that begin with `rnnlm_` and have no labels."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {name: float(value) for name, value in re.findall(r"^(rnnlm_\w+) (\S+)$", text, re.MULTILINE)}


def resident_mebibytes(process_id: int) -> float:
    return psutil.Process(process_id).memory_info().rss / 2**20


def prompts(count: int, tokens: int) -> list[dict[str, Any]]:
    """Return generation requests with different seeds and a temperature of 1.5, at which few texts end early."""
    return [{"prompt": "", "seed": seed, "maximum_tokens": tokens, "temperature": 1.5} for seed in range(count)]


def latencies(model: str, requests: int, concurrents: list[int], tokens: int) -> None:
    print("| requests | at once | failures | p50, ms | p95, ms | tokens/s | tokens a step |\n|" + "---|" * 7)
    for concurrent in concurrents:
        with served(model) as (host, port, _):
            put_under_load(host, port, prompts(WARM_UP, tokens), WARM_UP)
            before = figures(host, port)
            load = put_under_load(host, port, prompts(requests, tokens), concurrent)
            after = figures(host, port)
        change = {name: after[name] - before[name] for name in after}
        cuts = statistics.quantiles(load.seconds, n=100, method="inclusive")
        together = change["rnnlm_tokens_generated_total"] / change["rnnlm_steps_total"]
        print(
            f"| {requests} | {concurrent} | {len(load.failures)} | {1000 * cuts[49]:,.0f} | {1000 * cuts[94]:,.0f} "
            f"| {load.tokens / load.wall_seconds:,.0f} | {together:.2f} |",
            flush=True,
        )
        for failure in load.failures[:3]:
            print(failure, file=sys.stderr)


def memory(model: str, requests: int) -> None:
    print("| requests answered | resident, MiB |\n|---|---|")
    mixed = prompts(requests, 20)
    mixed[::5] = [{"text": f"the number {seed} and some more text to score"} for seed in range(0, requests, 5)]
    with served(model) as (host, port, process_id):
        for done in range(0, requests, requests // 5):
            load = put_under_load(host, port, mixed[done : done + requests // 5], 16)
            print(f"| {done + len(load.seconds):,} | {resident_mebibytes(process_id):,.0f} |", flush=True)
            for failure in load.failures[:3]:
                print(failure, file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrent", type=int, nargs="+", default=[32, 1])
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--memory", type=int, metavar="REQUESTS", help="the service's memory over so many requests")
    options = parser.parse_args()
    if options.memory:
        memory(options.model, options.memory)
    else:
        latencies(options.model, options.requests, options.concurrent, options.tokens)
