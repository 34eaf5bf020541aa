import pytest
from prefect.artifacts import Artifact

from tasks.publish_markdown import publish_markdown


@pytest.mark.usefixtures("prefect_server")
def test_the_latest_artifact_under_the_key_is_the_markdown() -> None:
    publish_markdown.fn("corpus-test", "# first")
    publish_markdown.fn("corpus-test", "# second")
    artifact = Artifact.get("corpus-test")
    assert artifact is not None
    assert (artifact.type, artifact.data) == ("markdown", "# second")
