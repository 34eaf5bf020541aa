"""SQL statements, which are read by name from sql/. There is one statement per file."""

import glob
from functools import cache
from pathlib import Path

from rnnlm.storage.package_files import package_file


@cache
def statement(name: str) -> str:
    """Return the text of sql/<name>.sql, for example statement("queries/read_rows")."""
    return (package_file("sql") / f"{name}.sql").read_text(encoding="utf-8")


def literal(path: Path) -> str:
    """Return the path escaped for read_parquet and similar functions, which interpret it as a glob pattern.

    For instance, the pattern a[1].csv would read the file a1.csv.
    """
    return glob.escape(str(path))


def names(folder: str) -> list[str]:
    """Return the names of all statements in a folder of sql/, such as "checks/bos_is_never_predicted", sorted."""
    return [f"{folder}/{path.stem}" for path in sorted((package_file("sql") / folder).glob("*.sql"))]
