"""Assert that a lock admits one thread at a time."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager


def assert_one_at_a_time(lock: Callable[[], AbstractContextManager[None]]) -> None:
    """Let three threads take the lock, and assert that each one leaves before the next one enters."""
    inside: list[str] = []

    def take(name: str) -> None:
        with lock():
            inside.append(name)
            time.sleep(0.1)
            inside.append(name)

    threads = [threading.Thread(target=take, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inside) == sorted("aabbcc")
    assert inside[::2] == inside[1::2]
