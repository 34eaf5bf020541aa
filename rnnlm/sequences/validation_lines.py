"""The lines of a dataset's validation split, and the tokens of these lines that are used for model selection."""

import duckdb
import numpy as np

from rnnlm.corpora.line_digests import chooses
from rnnlm.errors import DatasetError
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import statement


def choosing_tokens(dataset: DatasetRecord) -> np.ndarray:
    """Return a mask of the validation tokens that are used for model selection, (predicted tokens,) bool.

    The tokens are in the order of the text. If no line of a small split is used for model selection, all tokens are
    used.
    """
    digests, predicted = lines_of_validation(dataset)
    chosen = np.repeat(chooses(digests), predicted)
    return chosen if chosen.any() else np.ones(len(chosen), bool)


def all_lines_choose(dataset: DatasetRecord) -> bool:
    """Return True if there are so few validation lines that all of them are used for model selection."""
    return bool(choosing_tokens(dataset).all())


def lines_of_validation(dataset: DatasetRecord) -> tuple[np.ndarray, np.ndarray]:
    """Return the digests, (lines,) uint64, and predicted tokens, (lines,) int64, of the validation lines in text order.

    Raise DatasetError if rnnlm 0.3 or older created the dataset, because these versions did not store the lines.
    """
    with connect(dataset) as connection:
        try:
            lines = connection.sql(statement("queries/read_validation_lines")).to_arrow_table()
        except duckdb.CatalogException:
            raise DatasetError(
                f"{dataset.folder}: an older version of rnnlm made this dataset, without its validation lines;\n"
                "run `rnnlm prepare` or `rnnlm run` again with its text and settings to make a new dataset"
            ) from None
    return lines["digest"].to_numpy(), lines["predicted_tokens"].to_numpy()


def first_tokens_of_rows(dataset: DatasetRecord) -> np.ndarray:
    """Return the number of predicted tokens before each row of the validation split, (rows,)."""
    with connect(dataset) as connection:
        rows = connection.sql(statement("queries/read_row_lengths"), params={"split": "valid"}).to_arrow_table()
    predicted = rows["predicted_tokens"].to_numpy()
    return np.cumsum(predicted) - predicted
