"""Read the imports of a Python file."""

import ast
from collections.abc import Iterator


def imports(source: str, package: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield the absolute dotted name of each imported module, and the names that are imported from the module.

    Relative imports and imports in functions are included. `package` is the dotted name of the file's package, in
    parts.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module, [alias.name for alias in node.names]
