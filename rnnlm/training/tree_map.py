"""Tensors in dataclasses, lists and tuples, taken together."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")


def changed(tree: T, change: Callable[[Tensor], Tensor]) -> T:
    """A copy with each tensor replaced by change(tensor), in a fixed order; whatever else there is stays."""
    node: Any = tree
    if isinstance(node, Tensor):
        return change(node)  # type: ignore[return-value]
    if isinstance(node, list | tuple):
        return type(node)(changed(child, change) for child in node)  # type: ignore[return-value]
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{field.name: changed(getattr(node, field.name), change) for field in fields(node)})  # type: ignore[return-value]
    return tree


def tensors(tree: object) -> list[Tensor]:
    """Those of `tree`, in the order of `changed`."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    changed(tree, note)
    return found
