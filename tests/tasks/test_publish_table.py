import json

import pytest
from prefect.artifacts import Artifact

from tasks.publish_table import publish_table


@pytest.mark.usefixtures("prefect_server")
def test_rows_arrive_as_given() -> None:
    rows = [{"split": "valid", "perplexity": "10.00"}, {"split": "test", "perplexity": "11.00"}]
    publish_table.fn("perplexity-test", rows, "a table")
    artifact = Artifact.get("perplexity-test")
    assert artifact is not None
    assert artifact.type == "table"
    assert json.loads(str(artifact.data)) == rows
    assert artifact.description == "a table"
