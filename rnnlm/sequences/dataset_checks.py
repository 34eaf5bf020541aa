"""What must be true of every dataset file: sql/checks, each of which must return no row."""

from rnnlm.errors import DatasetError
from rnnlm.records import DatasetRecord
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sql_statements import names, statement


def check_dataset(dataset: DatasetRecord) -> list[str]:
    """Names of the checks passed. DatasetError names the first that returned a row, and the row."""
    passed = []
    for name in names("checks"):
        with connect(dataset) as connection:  # a new one for each: DuckDB keeps what it has read
            row = connection.execute(statement(name)).fetchone()
        if row is not None:
            raise DatasetError(
                f"{dataset.database}: sql/{name}.sql returned {row}, expected no row;\n"
                "run again with --force sequences, and report it if it comes back"
            )
        passed.append(name.removeprefix("checks/"))
    return passed
