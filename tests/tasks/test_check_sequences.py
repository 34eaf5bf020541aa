import duckdb
import pytest

from rnnlm.config import SequencesConfig
from rnnlm.errors import DatasetError
from rnnlm.records import DatasetRecord
from tasks.check_sequences import check_sequences


def test_a_good_dataset_passes_and_a_broken_one_does_not(toy_dataset: DatasetRecord) -> None:
    assert "every_token_is_predicted_once" in check_sequences.fn(toy_dataset, SequencesConfig())
    with duckdb.connect(str(toy_dataset.database)) as connection:
        connection.execute("delete from documents")
    with pytest.raises(DatasetError, match="every_token_is_predicted_once"):
        check_sequences.fn(toy_dataset, SequencesConfig())
