"""Functions that are called as Prefect tasks run in other processes, which end when the flow ends.

Their results and exceptions reach the caller.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.settings import get_current_settings

from rnnlm.config import SequencesConfig
from rnnlm.corpora.sources import find_source
from rnnlm.errors import CorpusError, EngineError, ExtraError
from rnnlm.runtime.engines import Engine
from rnnlm.runtime.extras import EXTRAS
from rnnlm.runtime.polling import poll_until
from rnnlm.sequences import corpus_shards
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, TokenizerRecord
from tasks.operations.task_runners import local_processes, piece_task
from tasks.sequences import tokenize_corpus

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import os, time
from prefect import flow
from tasks.operations.task_runners import local_processes
from tests.tasks.operations.test_task_runners import called

@flow
def sleep():
    with local_processes(called, 2, 2) as engine:
        processes = {engine.submit(os.getpid).result() for _ in range(8)}
        sleeping = [engine.submit(time.sleep, 600) for _ in range(2)]
        print(*processes, flush=True)
        sleeping[0].result()
sleep()
"""


@piece_task("call {function.__name__}")
def called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


called = called.with_options(retry_delay_seconds=0)


def in_flow(use: Callable[[Engine], Any], worth: int = 2) -> Any:
    """Open an engine in a flow run, call `use` with the engine, and return the result."""

    @flow
    def using() -> Any:
        with local_processes(called, 2, worth) as engine:
            return use(engine)

    return using()


@pytest.mark.slow
def test_calls_are_answered_by_other_processes_which_end(prefect_server: None) -> None:
    def use(engine: Engine) -> list[int]:
        # After a call has failed, the process executes further calls.
        with pytest.raises(CorpusError, match="no such file"):
            engine.submit(find_source, "/no/such/file", "auto").result()
        assert engine.submit(abs, -3).result() == 3
        assert engine.workers == 2
        return [engine.submit(os.getpid).result() for _ in range(8)]

    processes = set(in_flow(use))
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2
    assert not any(is_running(process) for process in processes)


@pytest.mark.long
def test_one_worker_is_this_process(prefect_server: None) -> None:
    assert in_flow(lambda engine: engine.submit(os.getpid).result(), worth=1) == os.getpid()


def test_outside_a_flow_calls_run_here() -> None:
    with local_processes(called, 2, 2) as engine:
        assert engine.submit(os.getpid).result() == os.getpid()


@pytest.mark.slow
def test_a_killed_process_is_reported(prefect_server: None) -> None:
    def use(engine: Engine) -> None:
        os.kill(engine.submit(os.getpid).result(), signal.SIGKILL)
        engine.submit(time.sleep, 1).result()
        engine.submit(time.sleep, 1).result()

    with pytest.raises(EngineError, match="called: a process ended, perhaps because memory ran out;\nrun again"):
        in_flow(use)


def sleep_long(slept: Path) -> None:
    time.sleep(600)
    slept.touch()


@pytest.mark.slow
def test_processes_end_at_once_if_the_flow_is_interrupted(prefect_server: None, tmp_path: Path) -> None:
    found: list[int] = []

    def use(engine: Engine) -> None:
        found.append(engine.submit(os.getpid).result())
        for _ in range(2):
            engine.submit(sleep_long, tmp_path / "slept")
        raise CorpusError("stop")

    with pytest.raises(CorpusError, match="stop"):
        in_flow(use)
    assert not (tmp_path / "slept").exists()
    assert not is_running(found[0])


@pytest.mark.slow
def test_a_killed_flow_leaves_no_process(prefect_server: None) -> None:
    # The flow uses the test's server. Without an address, Prefect would start a server that outlives the flow.
    server = get_current_settings().api.url
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": str(server)}
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        children = [int(number) for number in process.stdout.readline().split()]
        assert children
        assert all(is_running(child) for child in children)
        process.kill()
    assert poll_until(lambda: not any(is_running(child) for child in children), 60, every_seconds=0.05)


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_each_shard_is_a_task_run(
    prefect_server: None,
    toy_corpus: CorpusRecord,
    toy_tokenizer: TokenizerRecord,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
) -> None:
    def shard_runs() -> int:
        with get_client(sync_client=True) as client:
            return sum(run.name.startswith("tokenize shard ") for run in client.read_task_runs())

    monkeypatch.setattr(corpus_shards, "TOKENIZED_BYTES_A_PROCESS", 5_000)
    before = shard_runs()
    config = SequencesConfig(mode="stream", processes=processes)
    assert not flow(tokenize_corpus)(toy_corpus, toy_tokenizer, config).skipped
    assert poll_until(lambda: shard_runs() - before == 3, 20)  # Each of the three split files is one shard.


def fail_the_first_time(error: type[Exception], notes: Path) -> int:
    """Return the number of calls so far. Raise `error` in the first call."""
    with notes.open("a") as stream:
        stream.write("called\n")
    calls = len(notes.read_text().splitlines())
    if calls == 1:
        raise error("the network is unavailable")
    return calls


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_piece_runs_again_after_a_failure_that_may_pass(prefect_server: None, tmp_path: Path, workers: int) -> None:
    def call(error: type[Exception]) -> int:
        notes = tmp_path / error.__name__
        return in_flow(lambda engine: engine.submit(fail_the_first_time, error, notes).result(), worth=workers)

    assert call(OSError) == 2
    with pytest.raises(CorpusError, match="the network is unavailable"):
        call(CorpusError)
    assert (tmp_path / "CorpusError").read_text() == "called\n"


def test_ray_without_its_packages_says_how_to_install_them(
    toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "ray", ("ray", "a_package_that_nobody_has"))
    with pytest.raises(ExtraError, match=r'engine=ray: needs .*a_package_that_nobody_has(.|\n)*"\.\[ray\]"'):
        tokenize_corpus.fn(toy_corpus, toy_tokenizer, SequencesConfig(mode="stream", engine="ray"))


def is_running(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
