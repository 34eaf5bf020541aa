"""What all stages share: they time themselves and say when there was nothing to do."""

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from rnnlm.home import Home, read_json, write_json
from rnnlm.records import StageRecord

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R", bound=StageRecord)


def stage(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: fill in `seconds` of the returned record and log one line, skipped or done."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            record = function(*args, **kwargs)
            seconds = time.perf_counter() - start
            what = "skipped, verified output exists" if record.skipped else "done"
            logger.info("%s: %s (%.1f s)", name, what, seconds)
            return record.model_copy(update={"seconds": seconds})

        return timed

    return wrap


def once_in_run(home: Home, path: Path, key: str, build: Callable[[], Any], *, force: bool = False) -> tuple[Any, bool]:
    """A JSON result kept in a run's folder, or another one, under `key`, the digest of all it depends on.

    Returns the value and whether it was there already.
    """
    with home.lock(f"{path.parent.name}-{path.name}"):
        if not force:
            kept = read_json(path)
            if isinstance(kept, dict) and kept.get("key") == key:
                return kept["value"], True
        value = build()
        write_json(path, {"key": key, "value": value})
        return value, False
