"""The metadata of a version is read from MLflow's tags, in the format of any release."""

import pytest

from rnnlm.registry.registry_version import as_tags, facts_of, read_version, set_facts
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.registrar import Registrar
from tests.rnnlm.registry.test_registration import NAME


def test_facts_come_back_from_their_tags() -> None:
    facts = {"alias": "champion", "reason": 'better: "1.2"', "test_perplexity": "80.5", "run_id": "aa"}
    tags = as_tags(facts)
    assert set(tags) == {"decision", "run_id", "facts"}
    # The tag begins with the score, because the list of versions shows only the beginning of a tag.
    assert tags["facts"].startswith('test perplexity 80.50 {"')
    assert facts_of(tags) == facts
    assert facts_of(tags | {"facts": tags["facts"].removeprefix("test perplexity 80.50 ")}) == facts
    assert facts_of({"facts": "of another program", "team": "search"}) == {"team": "search"}
    assert facts_of(facts) == facts  # Older releases of rnnlm wrote one tag for each value.


@pytest.mark.long
def test_facts_of_older_versions_are_replaced_and_removed(registered: Registrar) -> None:
    with reaching_mlflow(registered.home) as client:
        client.set_model_version_tag(NAME, "1", "replaced_by", "7")
        client.set_model_version_tag(NAME, "1", "note", "of a person")
        before = read_version(client, NAME, 1).facts
        set_facts(client, NAME, 1, {"replaced_by": None, "reason": "another", "alias": "challenger"})
        version = client.get_model_version(NAME, "1")
        after = facts_of(version.tags)
        client.set_model_version_tag(NAME, "1", "note", "changed")
        assert read_version(client, NAME, 1).facts["note"] == "changed"
    assert before["replaced_by"] == "7"
    assert "replaced_by" not in after
    assert (after["reason"], after["alias"], version.tags["decision"]) == ("another", "challenger", "challenger")
    changed = {"replaced_by", "reason", "alias"}
    assert {fact: value for fact, value in after.items() if fact not in changed} == {
        fact: value for fact, value in before.items() if fact not in changed
    }
    assert '"note"' not in version.tags["facts"]
