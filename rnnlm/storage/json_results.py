"""Results that are a single JSON value. Each is computed once for its key, and stored with a digest of the value."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rnnlm.storage.home import Home, digest_of, read_json, write_json

logger = logging.getLogger(__name__)


def write_json_once(
    home: Home, path: Path, key: str, build: Callable[[], Any], *, force: bool = False
) -> tuple[Any, bool]:
    """Return a JSON result and whether it was already stored. If not, compute it by `build` and store it at `path`.

    `key` is the digest of everything on which the result depends. A digest of the result is stored, too, so that an
    edited or damaged file is replaced.
    """
    with home.lock(f"{path.parent.name}-{path.name}"):
        stored = None if force else read_json(path)
        if isinstance(stored, dict) and stored.get("key") == key:
            if is_intact(stored):
                return stored["value"], True
            logger.warning("%s: the file differs from its sha256, so it is made again", path)
        # The conversion to JSON and back gives the same value as reading the stored file.
        value = json.loads(json.dumps(build()))
        write_json(path, {"key": key, "value": value, "sha256": digest_of([key, value])})
        return value, False


def is_intact(stored: dict[str, Any]) -> bool:
    return bool(stored.get("sha256") == digest_of([stored.get("key"), stored.get("value")]))


def read_stored_json(path: Path) -> Any:
    """Return the value that write_json_once stored under any key, or None if the file is missing or damaged."""
    stored = read_json(path)
    return stored.get("value") if isinstance(stored, dict) and is_intact(stored) else None
