"""SQL lives in sql/, one statement a file; Python reads it by name."""

import glob
from functools import cache
from pathlib import Path

from rnnlm.package_files import package_file


@cache
def statement(name: str) -> str:
    """The text of sql/<name>.sql, such as statement("queries/read_split")."""
    return (package_file("sql") / f"{name}.sql").read_text(encoding="utf-8")


def literal(path: Path) -> str:
    """The path for read_parquet and the like, which take patterns: a[1].csv would be read as a1.csv."""
    return glob.escape(str(path))


def names(room: str) -> list[str]:
    """All statements of a room of sql/, such as "checks/bos_is_never_predicted", in order of name."""
    return [f"{room}/{path.stem}" for path in sorted((package_file("sql") / room).glob("*.sql"))]
