"""Presets, which are YAML files in the folder presets/ of the package or of an extension.

The file name is the preset's name. A file has the same form as a file for `--config`. It contains the differences from
the defaults or, with an entry `preset: NAME`, from another preset.
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
    """Return the settings of a preset as nested sections. They include the preset's name, unless it is `default`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    values = yaml.load(preset_files()[name].read_text(encoding="utf-8"), loader) or {}
    base = read_preset(values["preset"]) if "preset" in values else {}
    own_name = {} if name == "default" else {"preset": name}
    return nest(flatten(base) | flatten(values) | own_name)


def with_preset_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested configuration that names a preset, together with the preset's other settings."""
    return nest(flatten(read_preset(config["preset"])) | flatten(config))
