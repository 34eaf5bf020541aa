import pytest
from prefect.artifacts import Artifact

from tasks.publish_link import publish_link


@pytest.mark.usefixtures("prefect_server")
def test_the_link_carries_its_address_and_text() -> None:
    publish_link.fn("mlflow-test", "http://127.0.0.1:5000/#/experiments/1/runs/2", "The run")
    artifact = Artifact.get("mlflow-test")
    assert artifact is not None
    assert artifact.data == "[The run](http://127.0.0.1:5000/#/experiments/1/runs/2)"
