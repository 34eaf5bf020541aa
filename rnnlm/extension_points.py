"""The extension points, to which extensions add functions. Other packages use the points without naming an extension.

An extension is a package rnnlm/extensions/NAME. Its __init__.py may define EXTENSION, an `Extension` that lists the
names of the objects it adds, so that nothing is imported before it is used. Its folder `presets/`, if it exists, adds
presets. If the folder of an extension is deleted, together with everything else that has its name, the rest of the
program works without it.
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

    path: str  # The dotted path of the section, such as training.teacher.
    kind: str  # The class of the section in the form module:class. It is a subclass of Section.
    description: str
    added_later: bool = False  # Whether the section was added after configurations were first stored; see setting().


@dataclass(frozen=True, kw_only=True)
class Extension:
    """All objects that an extension adds, by extension point. An object is given as module:object, or as module."""

    sections: tuple[AddedSection, ...] = ()
    # A ModelMeasurement (evaluation/measurements.py), which measures a trained model after its evaluation.
    measurements: tuple[str, ...] = ()
    # A function AddTargets (training/further_targets.py), which returns training targets in addition to the text's own
    # tokens.
    targets: tuple[str, ...] = ()
    # A Launcher (training/training_run.py), which trains a run in other processes.
    launchers: tuple[str, ...] = ()
    # A module that is a DocumentReader (corpora/document_formats.py), which extracts the text of PDF, HTML and other
    # files.
    documents: tuple[str, ...] = ()
    # A section that implements ModelVariants (evaluation/variants.py), for models that are evaluated with a cache or
    # test-time adaptation. Its fields become options of `rnnlm evaluate`.
    variants: tuple[str, ...] = ()
    # The names of events about changed text, for which an automation sends messages. Unlike the other entries, they are
    # not objects.
    drift_events: tuple[str, ...] = ()


Point = Literal["measurements", "targets", "launchers", "documents", "variants"]


@cache
def extensions() -> dict[str, Extension]:
    """Return all extensions that add objects, by name in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(EXTENSIONS)]))
    packages = {name: importlib.import_module(f"rnnlm.extensions.{name}") for name in names}
    return {name: package.EXTENSION for name, package in packages.items() if hasattr(package, "EXTENSION")}


def plugged(point: Point) -> list[Any]:
    """Return the objects that all extensions add at an extension point."""
    places = (place for extension in extensions().values() for place in getattr(extension, point))
    return [pkgutil.resolve_name(place) for place in places]


def added_sections(parent: str) -> Iterator[tuple[str, AddedSection, Any]]:
    """Yield the path, description and class of each section that extensions add directly below the section `parent`.

    If `parent` is "", the sections are added to the whole configuration.
    """
    for extension in extensions().values():
        for section in extension.sections:
            above, _, name = section.path.rpartition(".")
            if above == parent:
                yield name, section, pkgutil.resolve_name(section.kind)


def drift_events() -> tuple[str, ...]:
    """Return the names of the events by which extensions report changed text."""
    return tuple(name for extension in extensions().values() for name in extension.drift_events)
