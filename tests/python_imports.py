"""The imports of a Python file."""

import ast
from collections.abc import Iterator


def imports(source: str, package: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield absolute dotted names of modules, and what is imported from each.

    Relative imports and those in functions count.

    package: the parts of the name of the package that the file is in.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module, [alias.name for alias in node.names]
