"""Presets, each a YAML file in presets/ or in an extension's folder of that name. The file's name is the preset's.

A file has the form of those that `--config` takes. It states what differs from the defaults, or, with `preset: NAME`
in it, from another preset.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rnnlm.config.moved_settings import flatten, nest
from rnnlm.extension_points import EXTENSIONS
from rnnlm.storage.package_files import package_file


@cache
def preset_files() -> dict[str, Path]:
    """Return the file of each preset by its name, in alphabetical order."""
    paths = [*package_file("presets").glob("*.yaml"), *EXTENSIONS.glob("*/presets/*.yaml")]
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem)}


@cache
def read_preset(name: str) -> dict[str, Any]:
    """Return what a preset sets, as sections with fields. Its own name is among them, unless it is `default`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    values = yaml.load(preset_files()[name].read_text(encoding="utf-8"), loader) or {}
    base = read_preset(values["preset"]) if "preset" in values else {}
    own_name = {} if name == "default" else {"preset": name}
    return nest(flatten(base) | flatten(values) | own_name)


def with_preset_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested configuration that names a preset, with the preset's settings where it has none of its own."""
    return nest(flatten(read_preset(config["preset"])) | flatten(config))
