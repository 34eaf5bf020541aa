"""What all stages share: they time themselves, say when there was nothing to do, and explain a full disk."""

import functools
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from rnnlm.home import Home, digest_of, full_disk_explained, read_json, write_json
from rnnlm.records import StageRecord

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R", bound=StageRecord)


def stage(name: str) -> Callable[[Callable[Concatenate[Home, P], R]], Callable[Concatenate[Home, P], R]]:
    """Decorator: fill in `seconds` of the returned record and log one line, skipped or done."""

    def wrap(function: Callable[Concatenate[Home, P], R]) -> Callable[Concatenate[Home, P], R]:
        @functools.wraps(function)
        def timed(home: Home, *args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            with full_disk_explained(home):
                record = function(home, *args, **kwargs)
            seconds = time.perf_counter() - start
            what = "skipped, verified output exists" if record.skipped else "done"
            logger.info("%s: %s (%.1f s)", name, what, seconds)
            return record.model_copy(update={"seconds": seconds})

        return timed

    return wrap


def once_in_run(home: Home, path: Path, key: str, build: Callable[[], Any], *, force: bool = False) -> tuple[Any, bool]:
    """A JSON result kept at `path`, in a run's folder or another one, under `key`: the digest of all it depends on.

    Its own digest is kept with it: a file that was edited or damaged is replaced. Returns the value and whether it
    was there already.
    """
    with home.lock(f"{path.parent.name}-{path.name}"):
        kept = None if force else read_json(path)
        if isinstance(kept, dict) and kept.get("key") == key:
            if kept.get("sha256") == digest_of([key, kept.get("value")]):
                return kept["value"], True
            logger.warning("%s: differs from its sha256; it is made again", path)
        value = json.loads(json.dumps(build()))  # as it will be read
        write_json(path, {"key": key, "value": value, "sha256": digest_of([key, value])})
        return value, False
