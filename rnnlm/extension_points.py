"""Where extensions plug in. The spine asks here for what they add, and imports none of them by name.

An extension is a package rnnlm/extensions/NAME. Its __init__.py may have EXTENSION, an `Extension` that lists what it
adds by name, so that nothing is imported before it is used. Its folder `presets/`, if it has one, adds presets. Without
the folder nothing is added: delete what bears its name, and the rest works.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

EXTENSIONS = Path(__file__).with_name("extensions")


@dataclass(frozen=True)
class AddedSection:
    """A section of the configuration that an extension adds."""

    path: str  # such as training.teacher
    kind: str  # module:class, a Section
    description: str
    added_later: bool = False  # see setting()


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Everything that an extension adds, by place. Places are written module:object, or module."""

    sections: tuple[AddedSection, ...] = ()
    # ModelMeasurement, evaluation/measurements.py: of a trained model, after its evaluation.
    measurements: tuple[str, ...] = ()
    # AddTargets, training/further_targets.py: further targets that a network learns beside the text.
    targets: tuple[str, ...] = ()
    # Launcher, training/training_run.py: where a run is trained instead of in this process.
    launchers: tuple[str, ...] = ()
    # DocumentReader, corpora/document_formats.py, a module: prose of PDF, HTML and other files.
    documents: tuple[str, ...] = ()
    # ModelVariants, evaluation/variants.py, a Section: a model that does more than predict, with options of `evaluate`.
    variants: tuple[str, ...] = ()
    # Names of events, not objects: those that the automation about changed text reports.
    drift_events: tuple[str, ...] = ()


Point = Literal["measurements", "targets", "launchers", "documents", "variants"]


@cache
def extensions() -> dict[str, Extension]:
    """Return the extensions that are there and plug in somewhere, by name in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(EXTENSIONS)]))
    packages = {name: importlib.import_module(f"rnnlm.extensions.{name}") for name in names}
    return {name: package.EXTENSION for name, package in packages.items() if hasattr(package, "EXTENSION")}


def plugged(point: Point) -> list[Any]:
    """Return the objects that extensions add at a point."""
    places = (place for extension in extensions().values() for place in getattr(extension, point))
    return [pkgutil.resolve_name(place) for place in places]


def added_sections(parent: str) -> Iterator[tuple[str, AddedSection, Any]]:
    """Yield sections directly below the section `parent` ("": the whole configuration): name, facts, class."""
    for extension in extensions().values():
        for section in extension.sections:
            above, _, name = section.path.rpartition(".")
            if above == parent:
                yield name, section, pkgutil.resolve_name(section.kind)


def drift_events() -> tuple[str, ...]:
    """Return the names of the events of extensions that report changed text."""
    return tuple(name for extension in extensions().values() for name in extension.drift_events)
