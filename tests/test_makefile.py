"""`make setup` works with every interpreter that the project names: what it installs, and what it looks for."""

import re
from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
INTERPRETERS = ("3.11.2", "3.12.0", "3.13.0")  # the oldest of each that a distribution or pyenv still gives


def normalized(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_every_pinned_package_takes_all_interpreters() -> None:
    """The installed packages tell which they take; pip would say ResolutionImpossible, and name another package."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    pinned = {(normalized(name), version) for name, version in pins}
    needed = {
        (normalized(found.name), found.version): SpecifierSet(found.metadata["Requires-Python"] or "")
        for found in distributions()
    }
    checked = needed.keys() & pinned
    assert len(checked) > len(pinned) / 2  # most of the pins are installed here; the others belong to rarer extras
    refusing = {
        f"{name} {version} needs Python {needed[name, version]}, not {interpreter}"
        for name, version in checked
        for interpreter in INTERPRETERS
        if interpreter not in needed[name, version]
    }
    assert not refusing
