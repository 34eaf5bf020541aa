"""Results that are one JSON value: computed once for a key, and stored with their own digest."""

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
    """Build a JSON result once, and store it at `path` under `key`, the digest of everything it depends on.

    Its own digest is stored with it, so an edited or damaged file is replaced. Return the value and whether it was
    there.
    """
    with home.lock(f"{path.parent.name}-{path.name}"):
        stored = None if force else read_json(path)
        if isinstance(stored, dict) and stored.get("key") == key:
            if is_intact(stored):
                return stored["value"], True
            logger.warning("%s: differs from its sha256; it is made again", path)
        value = json.loads(json.dumps(build()))  # as it will be read
        write_json(path, {"key": key, "value": value, "sha256": digest_of([key, value])})
        return value, False


def is_intact(stored: dict[str, Any]) -> bool:
    return bool(stored.get("sha256") == digest_of([stored.get("key"), stored.get("value")]))


def read_stored_json(path: Path) -> Any:
    """Return the value that write_json_once stored, whatever its key, or None if there is none or it is damaged."""
    stored = read_json(path)
    return stored.get("value") if isinstance(stored, dict) and is_intact(stored) else None
