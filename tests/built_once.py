"""Create slow fixtures in only one test process. The other processes read or copy them."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from filelock import FileLock

T = TypeVar("T")


def built_once(factory: pytest.TempPathFactory, build: Callable[[Path], T]) -> T:
    """Return the value of build(folder), which only the first test process that needs the value computes.

    The folder is shared, so a test that changes its contents must copy it first.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # The folder of each worker is inside the shared folder.
    folder = base / "shared" / build.__name__
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        value = folder.with_suffix(".pickle")
        if not value.exists():
            shutil.rmtree(folder, ignore_errors=True)  # Remove what a killed process may have left in the folder.
            folder.mkdir()
            built = build(folder)
            partial = value.with_suffix(".partial")
            partial.write_bytes(pickle.dumps(built))
            partial.replace(value)
        return pickle.loads(value.read_bytes())  # type: ignore[no-any-return]
