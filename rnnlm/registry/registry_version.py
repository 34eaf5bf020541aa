"""A registered version, and its facts as tags in MLflow: three that people filter by, and one with all others.

MLflow's list of versions shows the beginning of every tag of every version, whatever its name. So the fourth begins
with the score, in words, and ends with all other facts as JSON. MLflow's search finds these by LIKE:
``tags.facts LIKE '%"corpus_digest": "8c0ff25c%'``.
"""

import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rnnlm.storage.records import Record
from rnnlm.storage.result_records import Evidence, ListedVersion
from rnnlm.tracking.mlflow_store import all_pages

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

# Fact → its tag. The alias that a version got when it was decided is no alias of now: a former champion keeps it.
SHOWN_FACTS = {"alias": "decision", "dataset_id": "dataset_id", "run_id": "run_id"}
FACTS = "facts"  # tag: the test split's perplexity in words, then a JSON object of all other facts


class RegistryVersion(Record):
    """A version of a registered model, as MLflow stores it."""

    name: str
    number: int
    facts: dict[str, str] = {}  # see docs/reference/registry.md; a version of another program has its tags
    aliases: tuple[str, ...] = ()
    created_ms: int = 0  # milliseconds since 1970
    mlflow_run_id: str = ""
    source: str = ""  # where MLflow keeps its files
    description: str = ""  # the model card

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.number}"

    @property
    def created(self) -> str:
        """ISO 8601, UTC."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC).isoformat(timespec="seconds")

    @property
    def parent(self) -> int | None:
        """The champion that it was compared with."""
        return int(self.facts["parent_version"]) if "parent_version" in self.facts else None

    @property
    def evidence(self) -> Evidence | None:
        """The evidence that its alias was decided on."""
        value = self.facts.get("evidence")
        return Evidence(**json.loads(value)) if value else None

    @property
    def comparison(self) -> int | None:
        """The number of its comparison with its parent; None: there was no evidence."""
        return json.loads(self.facts["evidence"]).get("comparison", 1) if "evidence" in self.facts else None

    @property
    def own_evidence(self) -> Evidence | None:
        """The evidence on lines that the champion itself had held out; None: it is the same, or unknown."""
        value = self.facts.get("own_evidence")
        return Evidence(**json.loads(value)) if value else None

    @property
    def kept(self) -> int:
        """How many nights in a row the champion had been kept when this version did not replace it."""
        return int(self.facts.get("kept", 0))

    def figure(self, fact: str) -> float | None:
        """Return a numeric fact, or None if another program registered the version."""
        return float(self.facts[fact]) if fact in self.facts else None

    def listed(self) -> ListedVersion:
        return ListedVersion(
            name=self.name,
            version=self.number,
            aliases=self.aliases,
            validation_perplexity=self.figure("validation_perplexity"),
            test_perplexity=self.figure("test_perplexity"),
            bits_per_byte=self.figure("bits_per_byte"),
            dataset_id=self.facts.get("dataset_id", ""),
            created=self.created,
        )


def registry_version(version: "ModelVersion", aliases: dict[str, str] | None = None) -> RegistryVersion:
    """Convert a model version of MLflow to a RegistryVersion.

    aliases: alias → number, of the registered model; a search does not return them.
    """
    number = int(version.version)
    return RegistryVersion(
        name=version.name,
        number=number,
        facts=facts_of(version.tags),
        aliases=tuple(sorted(alias for alias, holder in (aliases or {}).items() if int(holder) == number)),
        created_ms=version.creation_timestamp,
        mlflow_run_id=version.run_id or "",
        source=version.source or "",
        description=version.description or "",
    )


def read_version(client: "MlflowClient", name: str, number: int) -> RegistryVersion:
    return registry_version(client.get_model_version(name, str(number)), aliases_of(client, name))


def read_versions(client: "MlflowClient", name: str, filter_string: str = "") -> list[RegistryVersion]:
    """Return all versions of a registered model, which must exist, or those that MLflow's filter finds."""
    aliases = aliases_of(client, name)
    found = all_pages(partial(client.search_model_versions, f"name = '{name}'{filter_string}"))
    return [registry_version(version, aliases) for version in found]


def aliases_of(client: "MlflowClient", name: str) -> dict[str, str]:
    return dict(client.get_registered_model(name).aliases)


def champion_of(client: "MlflowClient", name: str) -> RegistryVersion | None:
    number = aliases_of(client, name).get("champion")
    return read_version(client, name, int(number)) if number else None


def as_tags(facts: dict[str, str]) -> dict[str, str]:
    """Return the tags that keep the facts."""
    others = {fact: value for fact, value in sorted(facts.items()) if fact not in SHOWN_FACTS}
    shown = {SHOWN_FACTS[fact]: value for fact, value in facts.items() if fact in SHOWN_FACTS}
    perplexity = f"test perplexity {float(facts['test_perplexity']):.2f} " if "test_perplexity" in facts else ""
    return shown | {FACTS: perplexity + json.dumps(others, ensure_ascii=False)}


def facts_of(tags: dict[str, str]) -> dict[str, str]:
    """Return the facts in a version's tags.

    Versions of rnnlm 0.3 and older have a tag for each fact, named as the fact.
    """
    facts_of_tags = {tag: fact for fact, tag in SHOWN_FACTS.items()}
    shown = {facts_of_tags.get(tag, tag): value for tag, value in tags.items() if tag != FACTS}
    return shown | other_facts(tags)


def other_facts(tags: dict[str, str]) -> dict[str, str]:
    """Return the facts that have no tag of their own, or none if the tag is another program's."""
    text = tags.get(FACTS, "")
    try:
        found: dict[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        return {}
    return found


def set_facts(client: "MlflowClient", name: str, number: int, facts: dict[str, str | None]) -> None:
    """Set facts of a version, those that are not shown in one step; None removes one. Call it under the lock."""
    version = str(number)
    tags = client.get_model_version(name, version).tags
    kept: dict[str, str | None] = dict(other_facts(tags))
    given = {fact: value for fact, value in (kept | facts).items() if value is not None}
    for tag, value in as_tags(given).items():
        if tags.get(tag) != value:
            client.set_model_version_tag(name, version, tag, value)
    for tag in (tags.keys() & facts.keys()).difference(SHOWN_FACTS.values()):  # of rnnlm 0.3 and older
        client.delete_model_version_tag(name, version, tag)
