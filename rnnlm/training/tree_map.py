"""Apply a function to every tensor in nested dataclasses, lists and tuples."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")


def map_tensors(tree: T, function: Callable[[Tensor], Tensor]) -> T:
    """A copy of the tree with function(tensor) in place of each tensor, in a fixed order; other values stay."""
    node: Any = tree
    if isinstance(node, Tensor):
        return function(node)  # type: ignore[return-value]
    if isinstance(node, list | tuple):
        return type(node)(map_tensors(child, function) for child in node)  # type: ignore[return-value]
    if is_dataclass(node) and not isinstance(node, type):
        changes = {field.name: map_tensors(getattr(node, field.name), function) for field in fields(node)}
        return replace(node, **changes)  # type: ignore[return-value]
    return tree


def list_tensors(tree: object) -> list[Tensor]:
    """The tensors of a tree, in the order of map_tensors."""
    found: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(tree, collect)
    return found
