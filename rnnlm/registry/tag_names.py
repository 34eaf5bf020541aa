"""Facts of a version as its tags in MLflow: five that people filter by, and one with all others as JSON.

MLflow's list of versions shows every tag of every version, whatever its name. Its search finds the others by LIKE:
``tags.facts LIKE '%"corpus_digest": "8c0ff25c%'``.
"""

import json
from typing import TYPE_CHECKING

from rnnlm.storage.records import Evidence

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

    from rnnlm.registry.mlflow_database import TaggedVersion

SHOWN_FACTS = ("alias", "corpus_name", "dataset_id", "run_id", "tokenizer")
FACTS = "facts"  # tag: a JSON object of all other facts


def as_tags(facts: dict[str, str]) -> dict[str, str]:
    """Facts as the tags that keep them."""
    others = {fact: value for fact, value in sorted(facts.items()) if fact not in SHOWN_FACTS}
    shown = {fact: value for fact, value in facts.items() if fact in SHOWN_FACTS}
    return shown | {FACTS: json.dumps(others, ensure_ascii=False)}


def facts_of(version: "ModelVersion | TaggedVersion") -> dict[str, str]:
    """The version's facts by their names. Versions of rnnlm 0.3 and older have a tag for each fact."""
    plain = {name: value for name, value in version.tags.items() if name != FACTS}
    others: dict[str, str] = json.loads(version.tags.get(FACTS, "{}"))
    return plain | others


def evidence_of(version: "ModelVersion | TaggedVersion") -> Evidence | None:
    """The evidence that the version's alias was decided on."""
    value = facts_of(version).get("evidence")
    return Evidence(**json.loads(value)) if value else None


def set_facts(client: "MlflowClient", name: str, version: str, facts: dict[str, str | None]) -> None:
    """Set facts of a version, those that are not shown in one step; None removes one. Call it under the lock."""
    tags = client.get_model_version(name, version).tags
    kept: dict[str, str | None] = json.loads(tags.get(FACTS, "{}"))
    given = {fact: value for fact, value in (kept | facts).items() if value is not None}
    for tag, value in as_tags(given).items():
        if tags.get(tag) != value:
            client.set_model_version_tag(name, version, tag, value)
    for tag in (tags.keys() & facts.keys()).difference(SHOWN_FACTS):  # of rnnlm 0.3 and older
        client.delete_model_version_tag(name, version, tag)
