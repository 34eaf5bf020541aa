"""Files that are not Python code, such as SQL statements, presets and deployments.

A checkout has them at its top level, where they are easy to find. A wheel has them inside this package.
"""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


@cache
def package_file(name: str) -> Path:
    """Return the path of a file or folder such as `sql`, `presets` or `prefect.yaml` in a wheel or in a checkout.

    Raise FileNotFoundError if neither contains it.
    """
    for folder in (PACKAGE, PACKAGE.parent):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name}: found neither in {PACKAGE} (a wheel) nor in {PACKAGE.parent} (a checkout)")
