"""Calls in other processes: results, exceptions and ends come back to the caller."""

import os
import signal
import time

import pytest

from rnnlm.corpora.sources import find_source
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.sequences.worker_pool import workers


def test_calls_are_answered_by_other_processes() -> None:
    with workers(2, "counting", "again") as submit:
        processes = {submit(os.getpid).result() for _ in range(8)}
        rows = submit(rows_from_lists, [[4, 5], [], [6]]).result()
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2
    assert (rows.token_ids.tolist(), rows.lengths.tolist()) == ([4, 5, 6], [2, 0, 1])
    assert not any(is_running(process) for process in processes)


@pytest.mark.long
def test_an_exception_comes_back_as_it_was_and_the_worker_goes_on() -> None:
    with workers(1, "counting", "again") as submit:
        with pytest.raises(CorpusError, match="no such file"):
            submit(find_source, "/no/such/file", "auto").result()
        assert submit(abs, -3).result() == 3


def test_what_a_call_prints_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with workers(1, "counting", "again") as submit:
        assert submit(print, "noise").result() is None
    out, err = capfd.readouterr()
    assert (out, err) == ("", "noise\n")


def test_a_worker_that_is_killed_is_told() -> None:
    with workers(1, "counting", "again") as submit:
        process = submit(os.getpid).result()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(DatasetError, match="a counting process ended with exit code -9.*memory ran out;\nagain"):
            submit(abs, -3).result()


def test_processes_end_at_once_if_the_caller_is_interrupted() -> None:
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt), workers(1, "counting", "again") as submit:
        process = submit(os.getpid).result()
        submit(time.sleep, 60)
        raise KeyboardInterrupt
    assert time.perf_counter() - start < 30
    assert not is_running(process)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
