"""Files that are not Python code, such as SQL statements, presets and deployments.

In a checkout they are at its top level. In a wheel they are inside this package.
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
