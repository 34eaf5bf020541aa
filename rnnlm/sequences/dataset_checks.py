"""Checks of a dataset file. Each query in sql/checks must return no row."""

from rnnlm.errors import DatasetError
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import names, statement


def check_dataset(dataset: DatasetRecord) -> list[str]:
    """Run all checks and return their names.

    Raise DatasetError at the first check that returns a row. The message contains the row.
    """
    passed = []
    for name in names("checks"):
        # Each check uses a new connection, because a connection keeps what it has read in memory.
        with connect(dataset) as connection:
            row = connection.execute(statement(name)).fetchone()
        if row is not None:
            raise DatasetError(
                f"{dataset.database}: the check sql/{name}.sql returned {row}, expected no row;\n"
                "run again with --force sequences, and report this error if it occurs again"
            )
        passed.append(name.removeprefix("checks/"))
    return passed
